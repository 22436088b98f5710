// Typed calls with what openapi-typescript makes of the document. tsc checks the types, node makes the calls.
import createClient from "openapi-fetch";
import type { components, paths } from "./carillon.js";

const [server, key] = process.argv.slice(2);
const api = createClient<paths>({ baseUrl: server!, headers: { Authorization: `Bearer ${key}` } });

function must<T>(what: string, answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(`${what}: ${JSON.stringify(answer.error)}`);
  return answer.data;
}

const text = "channel: memory:generated\nprovider: memory\n";
const applied = must("apply", await api.POST("/v1/definitions", { body: { files: [{ name: "a.yaml", text }] } }));
const action: string = applied.changes[0]!.action;

const event: components["schemas"]["Event"] = {
  id: "typescript", kind: "signed-up", payload: { name: "Ada", tags: ["a"] }, recipient: { address: "ts@example.org" },
};
const posted = must("post", await api.POST("/v1/events", { body: { events: [event] } }));
const alone = must("post one", await api.POST("/v1/events", { body: event }));
must("tick", await api.POST("/v1/tick", {}));

const id = posted.items[0]!.instances[0]!.deliveries[0]!.id;
const delivery = must("read", await api.GET("/v1/deliveries/{id}", { params: { path: { id } } }));
const tries: number = delivery.attempts;
const log: components["schemas"]["Attempt"][] = delivery.attempt_log;

const surveys = must("surveys", await api.POST("/api/Surveys/Triggers/ingest", {
  body: { eventKind: "service-visit-closed", items: [{ payload: { wip: 1, nested: { a: [1] } }, recipient: { address: "ts@example.org" } }] },
}));

const missing = await api.GET("/v1/deliveries/{id}", { params: { path: { id: "d_none" } } });
const problem: components["schemas"]["Problem"] | undefined = missing.error;

console.log([action, posted.created, alone.skipped, tries, log.length, log[0]?.outcome, surveys.items.length, problem?.status, problem?.code].join(" "));
