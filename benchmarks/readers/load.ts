// A process that sends HTTP requests as fast as they are answered: each connection repeats its share of the paths.
//
// node benchmarks/readers/load.ts '{"url":…,"paths":[…],"connections":16,"seconds":5,"authorization":…}', as a fork, which sends its report to the parent.

import autocannon from 'autocannon'

export interface LoadReport {
  readonly perSecond: number
  readonly total: number
  readonly bytes: number
  /** Requests without an answer, or with a status other than 2xx. */
  readonly failed: number
}

const { url, paths, connections, seconds, authorization } = JSON.parse(process.argv[2]!) as {
  url: string
  /** Divided among the connections; if there are fewer, several connections share one. */
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
