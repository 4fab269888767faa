import { assertEquals } from "@std/assert";
import { allowedCode, WebSocketPeer } from "../../src/proxy/websocket_peer.ts";

/** A WebSocket without a network, which records its calls. */
class FakeSocket extends EventTarget {
  readyState: number = WebSocket.CONNECTING;
  bufferedAmount = 0;
  binaryType = "blob";
  readonly calls: unknown[] = [];

  open(): void {
    this.readyState = WebSocket.OPEN;
    this.dispatchEvent(new Event("open"));
  }

  receive(data: unknown): void {
    this.dispatchEvent(new MessageEvent("message", { data }));
  }

  send(data: unknown): void {
    this.calls.push(data);
  }

  close(...closeArguments: unknown[]): void {
    this.readyState = WebSocket.CLOSING;
    this.calls.push(closeArguments);
  }
}

function setUp() {
  const [from, to] = [new FakeSocket(), new FakeSocket()];
  const fromPeer = new WebSocketPeer(from as unknown as WebSocket, "upstream");
  const toPeer = new WebSocketPeer(to as unknown as WebSocket, "client");
  return { from, to, fromPeer, toPeer };
}

Deno.test("WebSocketPeer keeps what it receives until forwardTo() names the other peer", () => {
  const { from, to, fromPeer, toPeer } = setUp();
  to.open();
  from.receive("one");
  from.receive("two");
  assertEquals(to.calls, []);
  fromPeer.forwardTo(toPeer);
  from.receive("three");
  assertEquals(to.calls, ["one", "two", "three"]);
});

Deno.test("WebSocketPeer queues messages and the close until it is open", () => {
  const { to, toPeer } = setUp();
  toPeer.send("one");
  toPeer.close(4000, "bye");
  toPeer.send("dropped");
  assertEquals(to.calls, []);
  to.open();
  assertEquals(to.calls, ["one", [4000, "bye"]]);
});

Deno.test("WebSocketPeer forwards a close with a code that close() accepts", () => {
  for (const [code, end] of [[1005, []], [1000, [1000, "r"]], [1001, [4901, "r"]]] as const) {
    const { from, to, fromPeer, toPeer } = setUp();
    to.open();
    fromPeer.forwardTo(toPeer);
    from.dispatchEvent(new CloseEvent("close", { code, reason: "r", wasClean: true }));
    assertEquals(to.calls, [end]);
  }
});

Deno.test("WebSocketPeer closes the client uncleanly if the upstream's connection breaks, but not the other way round", () => {
  const { from, to, fromPeer, toPeer } = setUp();
  from.open();
  to.open();
  fromPeer.forwardTo(toPeer);
  toPeer.forwardTo(fromPeer);
  from.dispatchEvent(new CloseEvent("close", { code: 1006 }));
  to.dispatchEvent(new CloseEvent("close", { code: 0 }));
  assertEquals([to.calls, from.calls], [[[undefined, "!"]], [[4906, ""]]]);
});

Deno.test("WebSocketPeer closes both peers if more than 16 MiB are waiting to be sent", () => {
  const tooSlow = [4913, "A peer reads too slowly"];
  for (const [bufferedAmount, end] of [[16 * 1024 * 1024, []], [16 * 1024 * 1024 + 1, [tooSlow]]] as const) {
    const { from, to, fromPeer, toPeer } = setUp();
    from.open();
    to.open();
    fromPeer.forwardTo(toPeer);
    toPeer.forwardTo(fromPeer);
    to.bufferedAmount = bufferedAmount;
    from.receive("x");
    assertEquals([to.calls, from.calls], [["x", ...end], end]);
  }
});

Deno.test("WebSocketPeer counts what it queues before it is open", () => {
  const { from, to, fromPeer, toPeer } = setUp();
  from.open();
  fromPeer.forwardTo(toPeer);
  toPeer.forwardTo(fromPeer);
  const mebibyte = new ArrayBuffer(1024 * 1024);
  for (let i = 0; i < 16; i++) from.receive(mebibyte);
  assertEquals(from.calls, []);
  from.receive("x");
  assertEquals(from.calls, [[4913, "A peer reads too slowly"]]);
  to.open();
  assertEquals(to.calls.length, 18);
});

Deno.test("allowedCode() returns codes that close() accepts unchanged, and others as 49xx", () => {
  for (
    const [code, allowed] of [
      [1000, 1000],
      [1001, 4901],
      [1006, 4906],
      [1011, 4911],
      [1015, 4915],
      [0, 4906],
      [999, 4906],
      [2000, 4906],
      [2999, 4906],
      [3000, 3000],
      [4999, 4999],
      [5000, 4906],
    ] as const
  ) {
    assertEquals(allowedCode(code), allowed);
  }
});
