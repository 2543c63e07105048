// Shared by the benchmarks of HTTP servers: sends requests as fast as they are answered, from a process of its own.

import { fork } from 'node:child_process'
import { once } from 'node:events'
import autocannon from 'autocannon'

export interface HttpLoad {
  readonly url: string
  /** Divided among the connections; if there are fewer, several connections share one. */
  readonly paths: readonly string[]
  readonly connections: number
  readonly seconds: number
  readonly headers: Readonly<Record<string, string>>
  /** Posted in each request; without it they are GET. */
  readonly body?: Uint8Array
}

export interface LoadReport {
  readonly perSecond: number
  readonly total: number
  readonly bytes: number
  /** In milliseconds. */
  readonly p50: number
  readonly p99: number
}

/** @throws Error if a request has no answer, or one with a status other than 2xx */
export async function httpLoad(load: HttpLoad): Promise<LoadReport> {
  const child = fork(import.meta.filename, { serialization: 'advanced' })
  child.send(load)
  const [{ failed, ...report }] = (await once(child, 'message')) as [LoadReport & { failed: number }]
  child.disconnect()
  if (failed > 0) throw new Error(`${failed} requests had no answer, or none that was wanted`)
  return report
}

async function send({ url, paths, connections, seconds, headers, body }: HttpLoad): Promise<void> {
  let opened = 0
  function share(nth: number): string[] {
    const own = paths.filter((_, at) => at % connections === nth % connections)
    return own.length === 0 ? [paths[nth % paths.length]!] : own
  }
  const { requests, throughput, latency, non2xx, errors } = await autocannon({
    url: url + paths[0]!,
    connections,
    duration: seconds,
    headers: { ...headers },
    setupClient(client) {
      const method = body === undefined ? 'GET' : 'POST'
      client.setRequests(
        share(opened++).map(path => ({
          method,
          path,
          headers: { ...headers },
          ...(body === undefined ? {} : { body: Buffer.from(body) }),
        })),
      )
    },
  })
  const report: LoadReport = {
    perSecond: requests.average,
    total: requests.total,
    bytes: throughput.total,
    p50: latency.p50,
    p99: latency.p99,
  }
  process.send!({ ...report, failed: non2xx + errors })
}

if (process.argv[1] === import.meta.filename) process.once('message', message => void send(message as HttpLoad))
