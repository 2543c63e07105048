// A process that asks over HTTP as fast as it is answered, for the benchmarks of requests: each connection for its share of the paths, again and again.
//
// node benchmarks/readers/load.ts '{"url":…,"paths":[…],"connections":16,"seconds":5,"authorization":…}', as a fork, which is told the report.

import autocannon from 'autocannon'

export interface LoadReport {
  readonly perSecond: number
  readonly total: number
  readonly bytes: number
  /** Without an answer, or with one that is not 2xx. */
  readonly failed: number
}

const { url, paths, connections, seconds, authorization } = JSON.parse(process.argv[2]!) as {
  url: string
  /** Dealt out to the connections; where there are fewer, several connections share one. */
  paths: readonly string[]
  connections: number
  seconds: number
  authorization: string
}
let opened = 0

function share(nth: number): string[] {
  const own = paths.filter((_, at) => at % connections === nth % connections)
  return own.length === 0 ? [paths[nth % paths.length]!] : own
}

const { requests, throughput, non2xx, errors } = await autocannon({
  url: url + paths[0]!,
  connections,
  duration: seconds,
  headers: { authorization },
  setupClient: client => client.setRequests(share(opened++).map(path => ({ method: 'GET', path, headers: { authorization } }))),
})
const report: LoadReport = { perSecond: requests.average, total: requests.total, bytes: throughput.total, failed: non2xx + errors }
process.send!(report)
