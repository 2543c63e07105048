// What a run prints and keeps: tables for the terminal, and a chart.

import { median } from '../median-time.ts'
import type { Limits } from './limits.ts'
import type { CountedRows, Killed, Steady, Throughput } from './measure.ts'
import type { Peer } from './peer.ts'

/** All rounds of a peer. */
export interface Result {
  readonly peer: Pick<Peer, 'name' | 'title' | 'promise'>
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
  const [least, most] = [Math.min(...figures), Math.max(...figures)]
  return figures.length < 2 ? whole(median(figures)) : `${whole(median(figures))} (${whole(least)}–${whole(most)})`
}

/** Lines of equal cells: the first column to the left, the others to the right. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map(row => row[column]!.length)))
  const padded = (cell: string, at: number): string => (at === 0 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!))
  return rows.map(row => row.map(padded).join('  ').trimEnd()).join('\n')
}

/** Of all rounds: the sum of what went wrong in any of them. */
function faultsOf(rounds: readonly { readonly counted: CountedRows }[]): string[] {
  return (['lost', 'doubled', 'other'] as const).map(what => whole(rounds.reduce((sum, { counted }) => sum + counted[what], 0)))
}

export function throughputTable(results: readonly Result[], limits: Limits | undefined): string {
  const rows = results.map(({ peer, throughput }) => {
    const middle = (figure: (round: Throughput) => number): number => median(throughput.map(figure))
    const isComplete = throughput.every(round => round.isComplete)
    return [
      peer.title,
      spread(throughput.map(round => round.messagesPerSecond)),
      ...(['peer', 'store', 'broker'] as const).map(of => middle(round => round.cpuUs[of]).toFixed(1)),
      whole(middle(round => round.memoryMb)),
      whole(middle(round => round.bytesARow)),
      ...(isComplete ? faultsOf(throughput) : ['too slow', '', '']),
      peer.promise,
    ]
  })
  const limit = (what: string, rate: number, cpuUs = '', bytes = ''): string[] => [
    what,
    whole(rate),
    '',
    cpuUs,
    '',
    '',
    bytes,
    '',
    '',
    '',
    '',
  ]
  const bounds = limits && [
    limit(
      'limit: \\copy of ready rows, text',
      limits.copyText.rowsPerSecond,
      limits.copyText.cpuUsARow.toFixed(1),
      whole(limits.copyText.bytesARow),
    ),
    limit(
      'limit: \\copy of ready rows, binary',
      limits.copyBinary.rowsPerSecond,
      limits.copyBinary.cpuUsARow.toFixed(1),
      whole(limits.copyBinary.bytesARow),
    ),
    limit("limit: Kafka's ConsumerPerformance", limits.consumer),
    limit('limit: JSON.parse on one core', limits.parse),
  ]
  const head = ['', 'messages/s', 'CPU µs: peer', 'store', 'broker', 'MB', 'bytes a row', 'lost', 'doubled', 'other', 'promises']
  return table([head, ...(bounds ?? []), ...rows])
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
  return table([['ms from the intended sending to the commit', 'messages/s', 'p50', 'p99', 'p99.9', 'lost', 'doubled', 'other'], ...rows])
}

export function killsTable(results: readonly Result[]): string {
  const lag = (seconds: readonly number[]): string => `${median(seconds).toFixed(1)} (at most ${Math.max(...seconds).toFixed(1)})`
  const rows = results.flatMap(({ peer, killed }) =>
    killed === undefined
      ? []
      : [
          [
            peer.title,
            whole(killed.counted.acknowledged),
            ...faultsOf([killed]),
            lag(killed.lags.peer),
            lag(killed.lags.store),
            String(killed.ended),
            peer.promise,
          ],
        ],
  )
  const head = ['', 'messages', 'lost', 'doubled', 'other', 's of lag, peer killed', 'store killed', 'ended by itself', 'promises']
  return table([head, ...rows])
}

const colours = { peer: '#2f6f9f', store: '#7fb069', broker: '#c9a227' }

/** Messages/s with their spread, and the CPU of each process. */
export function chart(results: readonly Result[]): string {
  const [labels, bar, gap, height] = [330, 300, 90, 34]
  const rateMax = Math.max(...results.flatMap(({ throughput }) => throughput.map(round => round.messagesPerSecond)))
  const cpuOf = ({ throughput }: Result, of: keyof typeof colours): number => median(throughput.map(round => round.cpuUs[of]))
  const cpuMax = Math.max(...results.map(one => cpuOf(one, 'peer') + cpuOf(one, 'store') + cpuOf(one, 'broker')))
  const text = (x: number, y: number, content: string, more = ''): string => `<text x="${x}" y="${y}"${more}>${content}</text>`
  const rect = (x: number, y: number, width: number, fill: string): string =>
    `<rect x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="18" fill="${fill}"/>`
  const lines = results.map((one, at) => {
    const y = 60 + at * height
    const rates = one.throughput.map(round => round.messagesPerSecond)
    const [low, middle, high] = [Math.min(...rates), median(rates), Math.max(...rates)].map(rate => (rate / rateMax) * bar) as [
      number,
      number,
      number,
    ]
    let x = labels + bar + gap
    const stack = (['peer', 'store', 'broker'] as const).map(of => {
      const width = (cpuOf(one, of) / cpuMax) * bar
      x += width
      return rect(x - width, y, width, colours[of])
    })
    return [
      text(labels - 10, y + 14, one.peer.title, ' text-anchor="end"'),
      rect(labels, y, middle, colours.peer),
      `<path d="M${(labels + low).toFixed(1)} ${y + 9}H${(labels + high).toFixed(1)}" stroke="#222"/>`,
      text(labels + high + 6, y + 14, whole(median(rates))),
      ...stack,
    ].join('\n')
  })
  const legend = (Object.keys(colours) as (keyof typeof colours)[]).map((of, at) => {
    const x = labels + bar + gap + 160 + at * 60
    return `${rect(x, 24, 12, colours[of])}${text(x + 16, 38, of)}`
  })
  const [width, total] = [labels + 2 * bar + gap + 40, 70 + results.length * height]
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${total}" font-family="sans-serif" font-size="13">
<rect width="100%" height="100%" fill="#fff"/>
${text(labels, 38, 'messages/s')}
${text(labels + bar + gap, 38, 'µs of CPU a message')}
${legend.join('\n')}
${lines.join('\n')}
</svg>
`
}
