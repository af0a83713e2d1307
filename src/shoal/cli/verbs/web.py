"""The verb `web`: the page to play with."""

import threading
import webbrowser
from pathlib import Path

from shoal.checks import whole
from shoal.cli.app import OTHER, app
from shoal.cli.options import Count, Flag
from shoal.errors import MissingExtraError, ParameterError


@app.command(group=OTHER, help_epilogue="Example:  shoal web --port 8000 --no-open")
def web(*, port: Count = 0, no_open: Flag = False, static: Path | None = None, pyodide: Path | None = None) -> None:
    """Open a page to play with in the browser, served by this machine for itself alone; Ctrl-C ends it.

    Parameters
    ----------
    port
        where to listen on this machine; 0 takes a free port.
    no_open
        only print the address.
    static
        write the page into this folder instead, for any web server.
    pyodide
        a folder with Pyodide and the wheel of python-flint for it; the folder of --static can then prove certificates.
    """
    if pyodide is not None and static is None:
        raise ParameterError("--pyodide is for a folder that is written: give --static FOLDER as well")
    if static is not None:
        from shoal.web.static_site import write

        write(static, pyodide)
        print(f"written: {static}")
        return
    try:
        from shoal.web.page_server import serve_page
    except ImportError:
        raise MissingExtraError('the page needs starlette and uvicorn: pip install "shoal-dp[web]"') from None

    def ready(address: str) -> None:
        print(address, flush=True)
        if not no_open:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    serve_page(port=whole(port=port, least=0, most=65_535), ready=ready)
