// A server and a clock for the page, with which an hour passes in seconds. It
// answers the calls of a live run whose rows, tokens and counters grow each second.
(() => {
  const OPS = 100;
  const ROWS_PER_S = 20;
  const RUNS = 20;
  const COMPARISONS = 50;
  const HOUR_MS = 3600_000;
  let now = 0;
  let lastId = 0;
  let fetches = 0;
  let timers = [];
  const channel = new MessageChannel();
  let resume = () => {};
  channel.port1.onmessage = () => resume();
  // Everything that does not wait for a timer has happened after some turns.
  const turn = () => new Promise((resolve) => { resume = resolve; channel.port2.postMessage(0); });
  window.setTimeout = (work, ms = 0) => {
    timers.push({ id: ++lastId, due: now + ms, work });
    return lastId;
  };
  window.clearTimeout = (id) => { timers = timers.filter((timer) => timer.id !== id); };
  performance.now = () => now;
  // Drawing would take most of the time: one frame in ten seconds.
  let frames = [];
  window.requestAnimationFrame = (work) => {
    if (frames.length === 0) {
      setTimeout(() => {
        const all = frames;
        frames = [];
        for (const one of all) one(now);
      }, 10_000);
    }
    return frames.push(work);
  };
  /** Lets time pass. Returns the number of calls that the page has made. */
  window.play = async (seconds) => {
    const end = now + seconds * 1000;
    const before = fetches;
    for (;;) {
      for (let i = 0; i < 4; ++i) await turn();
      let next;
      for (const timer of timers) if (!next || timer.due < next.due) next = timer;
      if (!next || next.due > end) break;
      timers = timers.filter((timer) => timer !== next);
      now = Math.max(now, next.due);
      next.work();
    }
    now = end;
    return fetches - before;
  };

  const second = () => Math.floor(now / 1000);
  const op = (i) => `model.layers.${Math.floor(i / 20)}.block.op${i}`;
  const total = () => second() * ROWS_PER_S;
  const metrics = ["cosine", "max_abs", "nl2", "max_rel", "mean_abs", "psnr"];
  const row = (i) => ({
    row: i, rank: 0, token: Math.floor(i / ROWS_PER_S), op: op(i % OPS), call: 0, io: "output", index: "", dtype: "float32",
    shape: "[8, 4096]", verdict: "fail", origin: "", reason: `nl2 = ${i / 1000}, needs <= 0.0001`, predicate: "nl2 <= 0.0001",
    pairing: "", ranks: "", shards: "", request: "", non_finite: 0, golden: `golden/r0/t${i}/op${i}`,
    target: `target/r0/t${i}/op${i}`, decided_by: "nl2", share: i / 100,
    metrics: Object.fromEntries(metrics.map((name, k) => [name, i / (k + 1)])), custom_metrics: {},
  });
  const comparison = () => ({
    name: "c-000001", golden_run: "golden", target_run: "target", state: now < 2 * HOUR_MS ? "RUNNING" : "DONE",
    fail_count: String(total()), pass_count: String(OPS * second()), unmatched_count: "0", skipped_count: "0",
    total_count: "0", custom_metrics: [], first_divergence: { row: "0", op: op(0), token: "0", rank: 0 },
  });
  const groupsOf = ({ first_row: first, group_by: by }) => {
    const token = Number(first);
    const until = second();
    const groups = [];
    const last = Math.min(until, token + 100);
    for (let t = token; t < last; ++t) {
      for (let i = 0; i < OPS; ++i) {
        if (by.length > 1 || t === token) groups.push([i, 0, t, 1, i % 97 === 0 ? 1 : 0, 0, 0, i / 90, t * OPS + i]);
      }
    }
    return { ops: Array.from({ length: OPS }, (_, i) => op(i)), groups, next_row: last, row_count: until, has_ended: false };
  };
  const answers = {
    "RunService.ListRuns": () => ({ runs: Array.from({ length: RUNS }, (_, i) => ({
      name: `run-${i}`, id: `id-${i}`, state: i < 4 ? "ACTIVE" : "SEALED", world_size: 8, ranks_held: [{ first: 0, last: 7 }],
      create_time: "2026-11-30T10:00:00Z",
      counters: { tensor_count: String(now * 10 + i), size_bytes: String(now * 4096 + i), dropped_count: String(second()) },
    })) }),
    "page.comparisons": () => ({ comparisons: Array.from({ length: COMPARISONS }, (_, i) => ({
      name: `c-${i}`, golden_run: "golden", target_run: "target", state: i ? "done" : "running", verdict: "FAIL",
      title: `target differs from golden from ${op(i)} at token ${second()} on.`, row_count: total(), fail_count: second(),
    })) }),
    "page.comparison": () => ({
      comparison: comparison(), title: `target differs from golden, ${second()} s`, verdict: "FAIL",
      findings: Array.from({ length: 12 }, (_, i) => ["finding", `text ${i} at ${second()}`, i]),
      setup: Array.from({ length: 20 }, (_, i) => ["setup", `text ${i}`, -1]),
      metrics: metrics.map((name) => ({ name, in_default_columns: true, direction: "LOWER_IS_BETTER", unit: "" })),
    }),
    "page.rows": () => ({ rows: Array.from({ length: Math.min(200, total()) }, (_, i) => row(i)), next_page_token: "" }),
    "page.groups": groupsOf,
    "page.summaries": ({ group_by: by }) => by === "OP"
        ? { keys: Array.from({ length: 8 }, (_, i) => op(i)), values: Array(8).fill(1), ranks_lacking: [] }
        : { keys: Array.from({ length: second() }, (_, i) => String(i)),
            values: Array.from({ length: second() }, (_, i) => Math.sin(i / 50)), ranks_lacking: [] },
    "NodeService.GetNodeStatus": () => Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`counter_${i}_count`, String(now * i)])),
    "NodeService.ListStreams": () => ({ streams: Array.from({ length: 64 }, (_, i) => ({
      run: "run-0", rank: i, committed_size_bytes: String(now * i), committed_record_count: String(now), dropped_count: "0",
    })) }),
  };
  // A line of rows each second.
  const streamFrom = (first, signal) => {
    let next = first;
    return new ReadableStream({
      start: (controller) => signal.addEventListener("abort", () => controller.error(signal.reason)),
      pull: (controller) => new Promise((resolve) => setTimeout(() => {
        if (signal.aborted) return resolve();
        const rows = Array.from({ length: total() - next }, (_, i) => row(next + i));
        next += rows.length;
        const line = { rows, next_row: next, state: "running", counts: [OPS * second(), total(), 0, 0], total_count: 0,
          first_divergence: second() };
        controller.enqueue(new TextEncoder().encode(`${JSON.stringify(line)}\n`));
        resolve();
      }, 1000)),
    });
  };
  window.fetch = async (address, { body, signal }) => {
    fetches += 1;
    signal?.throwIfAborted();
    const name = address.split("/").pop();
    const request = JSON.parse(body);
    if (name === "page.stream") return new Response(streamFrom(request.first_row, signal));
    const answer = answers[name];
    if (!answer) return new Response(`{"error": "no ${name}"}`, { status: 404 });
    const text = JSON.stringify(answer(request));
    return { ok: true, json: async () => JSON.parse(text), text: async () => text };
  };
})();
