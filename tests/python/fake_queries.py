"""The services that msitd.query calls, in this process. Tests set the answers."""

from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
from msitd.query.messages import message_class, new

Answer = Callable[[Any, grpc.ServicerContext], Any]


def fail(
    context: grpc.ServicerContext,
    code: grpc.StatusCode,
    reason: str,
    message: str,
) -> None:
    """Ends a call with an ErrorInfo, as the daemon does."""
    info = message_class("google.rpc.ErrorInfo")(reason=reason, domain="msitd")
    status = message_class("google.rpc.Status")(code=code.value[0], message=message)
    status.details.add().Pack(info)
    details = ("grpc-status-details-bin", status.SerializeToString())
    context.set_trailing_metadata((details,))
    context.abort(code, message)


class FakeQueries(grpc.GenericRpcHandler):
    """Answers the methods that a test has set, and stores their requests."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self._methods: dict[str, grpc.RpcMethodHandler] = {}
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
        self._server.add_generic_rpc_handlers((self,))
        self.endpoint = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def answer(self, method: str, answer: Answer, *, streams: bool = False) -> None:
        """Makes `answer` produce the response, or responses, of `Service/Method`."""

        def unary(request: Any, context: grpc.ServicerContext) -> Any:
            self.requests.append(request)
            return answer(request, context)

        def stream(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            self.requests.append(request)
            yield from answer(request, context)

        make = (
            grpc.unary_stream_rpc_method_handler
            if streams
            else grpc.unary_unary_rpc_method_handler
        )
        self._methods[f"/msitd.v1.{method}"] = make(
            stream if streams else unary,
            request_deserializer=type(
                new(f"{method.partition('/')[2]}Request")
            ).FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler | None:
        return self._methods.get(handler_call_details.method)

    def stop(self) -> None:
        self._server.stop(None).wait()
