"""jupyter_kernel_test on the fake engine of fake_test.go."""
import unittest
import jupyter_kernel_test as jkt


class Suite(jkt.KernelTests):
    kernel_name = "tilus-lab"
    language_name = "go"
    file_extension = ".go"
    code_hello_world = "print hello, world"
    code_stderr = "warn oops"
    completion_samples = [{"text": "pr", "matches": {"print"}}]
    complete_code_samples = ["print a"]
    incomplete_code_samples = ["for {"]
    invalid_code_samples = [")("]
    code_page_something = "page some help"
    code_generate_error = "fail on purpose"
    code_execute_result = [{"code": "value 3", "result": "3"}]
    code_display_data = [{"code": "display x", "mime": "text/plain"}]
    code_history_pattern = "value*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "print"
    code_clear_output = "clear"
    support_iopub_welcome = True


class Welcome(jkt.IopubWelcomeTests):
    kernel_name = "tilus-lab"
    support_iopub_welcome = True


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=2)
    raise SystemExit(not program.result.wasSuccessful() or bool(program.result.skipped))
