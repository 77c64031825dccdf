"""A cell on a subshell of `tilus-lab kernel` while nbclient executes a notebook there."""
import asyncio

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

CELLS = ["x := 41\ngoOn := make(chan int)", "x = <-goOn\nx + 1", "y + x"]


async def main():
    km = AsyncKernelManager(kernel_name="tilus-lab")
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    client = NotebookClient(nb, km=km, timeout=120)
    async with client.async_setup_kernel():
        await client.async_execute_cell(nb.cells[0], 0)
        control = client.kc.control_channel
        control.send(client.kc.session.msg("create_subshell_request", {}))
        sub = (await control.get_msg(timeout=60))["content"]["subshell_id"]
        beside = km.client()
        assert beside.session is not client.kc.session
        beside.session.session += "_beside"  # its messages are counted anew: else they could have the names of nbclient's
        beside.start_channels()

        async def ask(kind, content):
            m = beside.session.msg(kind, content)
            m["header"]["subshell_id"] = sub
            beside.shell_channel.send(m)
            r = await beside.shell_channel.get_msg(timeout=60)
            assert r["parent_header"]["msg_id"] == m["header"]["msg_id"], r
            return r["content"]

        def run(code):
            return ask("execute_request", {"code": code, "silent": False, "store_history": True,
                                           "user_expressions": {"a": "x"}, "allow_stdin": False, "stop_on_error": True})

        async def published(kind):
            while (await beside.iopub_channel.get_msg(timeout=60))["msg_type"] != kind:
                pass

        await published("iopub_welcome")  # from here on all is heard
        running = asyncio.create_task(client.async_execute_cell(nb.cells[1], 1))
        await published("execute_input")
        r = await run("y := 1")
        assert r["status"] == "ok" and r["user_expressions"]["a"]["data"]["text/plain"] == "41", r
        r = await ask("complete_request", {"code": "goO", "cursor_pos": 3})
        assert "goOn" in r["matches"], r
        r = await ask("inspect_request", {"code": "goOn", "cursor_pos": 4, "detail_level": 0})
        assert r["found"] and "chan int" in r["data"]["text/plain"], r
        assert not running.done()
        await run("goOn <- 6")  # only this lets nbclient's cell end
        await running
        await client.async_execute_cell(nb.cells[2], 2)
        beside.stop_channels()
    got = [o["data"]["text/plain"] for cell in nb.cells for o in cell.outputs]
    assert got == ["7", "7"], got
    print("ok")


asyncio.run(main())
