import { assertEquals } from "@std/assert";
import { HeldBytes } from "../../../src/content/proxy/held_bytes.ts";
import {
  allowedCode,
  WebSocketPeer,
} from "../../../src/content/proxy/websocket_peer.ts";

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

function setUp(allHeldBytes = new HeldBytes()) {
  const [from, to] = [new FakeSocket(), new FakeSocket()];
  const fromPeer = new WebSocketPeer(from as unknown as WebSocket, {
    role: "upstream",
    allHeldBytes,
  });
  const toPeer = new WebSocketPeer(to as unknown as WebSocket, {
    role: "client",
    allHeldBytes,
  });
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
  for (
    const [code, end] of [[1005, []], [1000, [1000, "r"]], [1001, [
      4901,
      "r",
    ]]] as const
  ) {
    const { from, to, fromPeer, toPeer } = setUp();
    to.open();
    fromPeer.forwardTo(toPeer);
    from.dispatchEvent(
      new CloseEvent("close", { code, reason: "r", wasClean: true }),
    );
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
  for (
    const [bufferedAmount, end] of [[16 * 1024 * 1024, []], [
      16 * 1024 * 1024 + 1,
      [tooSlow],
    ]] as const
  ) {
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

/** Opens a bridge and lets the client receive a message while this many bytes are waiting to be sent to it. */
function setUpSlow(allHeldBytes: HeldBytes, bufferedAmount: number) {
  const bridge = setUp(allHeldBytes);
  bridge.from.open();
  bridge.to.open();
  bridge.fromPeer.forwardTo(bridge.toPeer);
  bridge.toPeer.forwardTo(bridge.fromPeer);
  bridge.to.bufferedAmount = bufferedAmount;
  bridge.from.receive("x");
  return bridge;
}

const QUARTER = 16 * 1024 * 1024 - 1;
const TOO_SLOW = [4913, "A peer reads too slowly"];

Deno.test("WebSocketPeer closes both peers instead of having more than 64 MiB wait in all bridges", () => {
  const allHeldBytes = new HeldBytes();
  const slow = Array.from(
    { length: 4 },
    () => setUpSlow(allHeldBytes, QUARTER),
  );
  assertEquals(slow.map(({ to }) => to.calls), Array(4).fill(["x"]));
  const { to, from } = setUpSlow(allHeldBytes, 65_536);
  assertEquals([to.calls, from.calls], [[TOO_SLOW], [TOO_SLOW]]);
  assertEquals(setUpSlow(allHeldBytes, 0).to.calls, ["x"]); // a client that reads
});

Deno.test("WebSocketPeer counts the bytes of a peer until it is closed or has sent them", () => {
  for (
    const [change, calls] of [
      [(socket: FakeSocket) => socket.readyState = WebSocket.CLOSED, ["x"]],
      [(socket: FakeSocket) => socket.bufferedAmount = 0, ["x"]],
      [(socket: FakeSocket) => socket.readyState = WebSocket.CLOSING, [
        TOO_SLOW,
      ]],
    ] as const
  ) {
    const allHeldBytes = new HeldBytes();
    const [first] = Array.from(
      { length: 4 },
      () => setUpSlow(allHeldBytes, QUARTER),
    );
    if (first !== undefined) change(first.to);
    assertEquals(setUpSlow(allHeldBytes, QUARTER).to.calls, [...calls]);
  }
});

Deno.test("WebSocketPeer counts the bytes that are queued until it is open", () => {
  const allHeldBytes = new HeldBytes();
  for (let i = 0; i < 4; i++) {
    setUp(allHeldBytes).toPeer.send(new ArrayBuffer(QUARTER));
  }
  const { from, to, fromPeer, toPeer } = setUp(allHeldBytes);
  from.open();
  toPeer.forwardTo(fromPeer);
  toPeer.send(new ArrayBuffer(65_537));
  to.open();
  assertEquals([to.calls, from.calls], [[TOO_SLOW], [TOO_SLOW]]);
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
