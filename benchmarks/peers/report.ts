// What a run prints and keeps: tables for the terminal, and a chart.

import { median } from '../median-time.ts'
import type { Counts } from './count.ts'
import type { Limit } from './limits.ts'
import type { Killed, Steady, Throughput } from './measure.ts'
import type { Peer } from './peer.ts'

/** All rounds of a peer. */
export interface Result {
  readonly peer: Peer
  readonly throughput: Throughput[]
  /** By the share of the peer's own maximum, in percent. */
  readonly steady: Record<number, Steady[]>
  killed?: Killed
}

export function whole(figure: number): string {
  return Number.isFinite(figure) ? Math.round(figure).toLocaleString('en') : '-'
}

/** The median, with the least and the most of several rounds. */
export function spread(figures: readonly number[]): string {
  const middle = whole(median(figures))
  return figures.length === 1 ? middle : `${middle} (${whole(Math.min(...figures))}–${whole(Math.max(...figures))})`
}

/** The first column to the left, the others to the right. A line may end early. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map(row => row[column]?.length ?? 0)))
  const padded = (cell: string, at: number): string => (at === 0 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!))
  return rows.map(row => row.map(padded).join('  ').trimEnd()).join('\n')
}

const faultNames = ['lost', 'doubled', 'other'] as const

/** The sums of all rounds, since one fault in any of them counts. */
function faultsOf(rounds: readonly { readonly counts: Counts; readonly isComplete?: boolean }[]): string[] {
  if (rounds.some(({ isComplete }) => isComplete === false)) return ['too slow', '', '']
  return faultNames.map(name => whole(rounds.reduce((sum, { counts }) => sum + counts[name], 0)))
}

export function throughputTable(results: readonly Result[], limits: readonly Limit[]): string {
  const bounds = limits.map(({ name, messagesPerSecond, cpuUs, bytesARow }) => [
    `limit: ${name}`,
    whole(messagesPerSecond),
    '',
    ...(cpuUs === undefined || bytesARow === undefined ? [] : [cpuUs.toFixed(1), '', '', whole(bytesARow)]),
  ])
  const rows = results.map(({ peer, throughput }) => {
    const middle = (figure: (round: Throughput) => number): number => median(throughput.map(figure))
    return [
      peer.title,
      spread(throughput.map(round => round.messagesPerSecond)),
      ...(['peer', 'store', 'broker'] as const).map(of => middle(round => round.cpuUs[of]).toFixed(1)),
      whole(middle(round => round.memoryMb)),
      whole(middle(round => round.bytesARow)),
      ...faultsOf(throughput),
      peer.promise,
    ]
  })
  const head = ['', 'messages/s', 'CPU µs: peer', 'store', 'broker', 'MB', 'bytes a row', ...faultNames, 'promises']
  return table([head, ...bounds, ...rows])
}

export function steadyTable(results: readonly Result[]): string {
  const rows = results.flatMap(({ peer, steady }) =>
    Object.entries(steady).map(([share, rounds]) => [
      `${peer.title}, at ${share} % of its maximum`,
      whole(median(rounds.map(({ rate }) => rate))),
      ...(['p50', 'p99', 'p999'] as const).map(of => spread(rounds.map(({ waits }) => waits[of]))),
      ...faultsOf(rounds),
    ]),
  )
  return table([['ms from the intended sending to the commit', 'messages/s', 'p50', 'p99', 'p99.9', ...faultNames], ...rows])
}

/** @param results of a run with kills */
export function killsTable(results: readonly Result[]): string {
  const lag = (seconds: readonly number[]): string => `${median(seconds).toFixed(1)} (at most ${Math.max(...seconds).toFixed(1)})`
  const rows = results.map(({ peer, killed }) => {
    const { counts, lags, ended } = killed!
    return [peer.title, whole(counts.acknowledged), ...faultsOf([killed!]), lag(lags.peer), lag(lags.store), whole(ended), peer.promise]
  })
  return table([['', 'messages', ...faultNames, 's of lag: peer killed', 'store killed', 'ended by itself', 'promises'], ...rows])
}

/** Messages/s, with the least and the most of the rounds. */
export function chart(results: readonly Result[]): string {
  const [labels, bars, line] = [330, 400, 34]
  const rates = results.map(({ throughput }) => throughput.map(round => round.messagesPerSecond))
  const x = (rate: number): string => ((rate / Math.max(...rates.flat())) * bars).toFixed(1)
  const lines = rates.map((each, at) => {
    const [least, middle, most] = [Math.min(...each), median(each), Math.max(...each)]
    return `<g transform="translate(${labels} ${10 + at * line})"><text x="-10" y="14" text-anchor="end">${results[at]!.peer.title}</text>
<rect width="${x(middle)}" height="18" fill="#2f6f9f"/><path d="M${x(least)} 9H${x(most)}" stroke="#222"/>
<text x="${x(most)}" y="14" dx="6">${whole(middle)} messages/s</text></g>`
  })
  const size = `${labels + bars + 150} ${10 + results.length * line}`
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size}" font-family="sans-serif" font-size="13">
<rect width="100%" height="100%" fill="#fff"/>\n${lines.join('\n')}\n</svg>\n`
}
