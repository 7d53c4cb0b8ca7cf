"""How tests end what they have started."""
import subprocess

EXIT_TIMEOUT_S = 20


def end_process(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(EXIT_TIMEOUT_S)
    if process.stdout:
        process.stdout.close()
