// A process that asks over HTTP as fast as it is answered, for the benchmark of requests: each connection for one page again and again.
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
  /** The connections take them in turn. */
  paths: readonly string[]
  connections: number
  seconds: number
  authorization: string
}
let opened = 0
const { requests, throughput, non2xx, errors } = await autocannon({
  url: url + paths[0]!,
  connections,
  duration: seconds,
  headers: { authorization },
  setupClient: client => client.setRequests([{ method: 'GET', path: paths[opened++ % paths.length]!, headers: { authorization } }]),
})
const report: LoadReport = { perSecond: requests.average, total: requests.total, bytes: throughput.total, failed: non2xx + errors }
process.send!(report)
