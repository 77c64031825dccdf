"""jupyter_kernel_test on `tilus-lab kernel`."""
import unittest
import jupyter_kernel_test as jkt

DISPLAY = 'Display(display.%s)'


class Suite(jkt.KernelTests):
    kernel_name = "tilus-lab"
    language_name = "go"
    file_extension = ".go"
    code_hello_world = 'import "fmt"\nfmt.Println("hello, world")'
    code_stderr = 'import ("fmt"; "os")\nfmt.Fprintln(os.Stderr, "oops")'
    completion_samples = [{"text": "lab.Compar", "matches": {"Compare", "Comparison"}}]
    complete_code_samples = ["1 + 1", "for i := 0; i < 3; i++ {\n}", "func f() int { return 1 }", "x := []int{1,\n2}"]
    incomplete_code_samples = ["for i := 0; i < 3; i++ {", "func f(", "x := `text"]
    invalid_code_samples = [")("]
    code_page_something = "%help"
    code_generate_error = "panic(\"on purpose\")"
    code_execute_result = [{"code": "1 + 2", "result": "3"}, {"code": '"a" + "b"', "result": "ab"}]
    code_display_data = [
        {"code": DISPLAY % 'SVG("<svg xmlns=\'http://www.w3.org/2000/svg\'/>")', "mime": "image/svg+xml"},
        {"code": DISPLAY % 'HTML("<b>x</b>")', "mime": "text/html"},
        {"code": DISPLAY % 'Markdown("**x**")', "mime": "text/markdown"},
        {"code": DISPLAY % 'JSON(map[string]any{"a": 1})', "mime": "application/json"},
    ]
    code_history_pattern = "1 + *"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "fmt.Println"
    code_clear_output = "display.ClearOutput(false)"
    support_iopub_welcome = True


class Welcome(jkt.IopubWelcomeTests):
    kernel_name = "tilus-lab"
    support_iopub_welcome = True


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=2)
    raise SystemExit(not program.result.wasSuccessful() or bool(program.result.skipped))
