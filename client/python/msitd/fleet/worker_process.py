"""A worker as a process: `python -m msitd.fleet.worker_process`."""

from msitd.fleet.process_engine import serve

if __name__ == "__main__":
    serve()
