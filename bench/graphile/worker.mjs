// graphile-worker for the comparison: "node worker.mjs drain ROWS" or "node worker.mjs late ROWS EVERY_MS", with PGURL.
// It prepares, prints "ready", waits for a line, measures, prints one line of JSON, and waits for a line to end.
import { createInterface } from 'node:readline'
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import pg from 'pg'

const [mode, rowsArg, everyArg] = process.argv.slice(2)
const rows = Number(rowsArg)
const every = Number(everyArg)
const pgPool = new pg.Pool({ connectionString: process.env.PGURL, max: 20 })
pgPool.on('error', () => {}) // a query that fails says so itself
const logger = new Logger(() => () => {})
const utils = await makeWorkerUtils({ pgPool, logger })
await utils.migrate()

let left = rows
let finished
const all = new Promise((resolve) => { finished = resolve })
const lateness = []
const taskList = {
  noop: async () => { if (--left === 0) finished() },
  late: async ({ due }) => { lateness.push(Date.now() - due); if (--left === 0) finished() },
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
async function ready() {
  console.log('ready')
  await lines.next()
}

const options = { pgPool, logger, taskList, noHandleSignals: true, crontab: '' }
let worker
if (mode === 'drain') {
  const note = 'x'.repeat(180)
  for (let first = 0; first < rows; first += 5000) {
    const n = Math.min(5000, rows - first)
    await utils.addJobs(Array.from({ length: n }, (_, k) => ({ identifier: 'noop', payload: { i: first + k, note } })))
  }
  await ready()
  const began = performance.now()
  // As fast as its settings allow: jobs are fetched and completed in batches.
  const preset = { worker: { concurrentJobs: 24, localQueue: { size: 500, refetchDelay: { durationMs: 10 } }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } }
  worker = await run({ ...options, preset })
  await all
  console.log(JSON.stringify({ ms: performance.now() - began }))
} else {
  worker = await run(options)
  await ready()
  const base = Date.now() + 1000
  await utils.addJobs(Array.from({ length: rows }, (_, i) => {
    const due = base + i * every
    return { identifier: 'late', payload: { due }, runAt: new Date(due) }
  }))
  await all
  console.log(JSON.stringify({ lateness }))
}
await lines.next()
await worker.stop()
await utils.release()
await pgPool.end()
process.exit(0)
