// The report of `./sluice copy`, and its words.

import type { LogCopy } from '../../../pipeline/copy/copy.ts'
import { plain } from '../text.ts'

export interface CopyReport {
  readonly logs: readonly LogCopy[]
  /** Whether the columns of the rows were compared, and not only which rows there are. */
  readonly contents: boolean
  /** The target has every row of the source, and no other one. */
  readonly holds: boolean
}

/** Ranges that are named in each partition. */
const firstMax = 10

/** The report as text. */
export function copyWords({ logs, contents, holds }: CopyReport): string {
  const lines = logs.flatMap(logWords)
  const sum = (of: (log: LogCopy) => number): number => logs.reduce((all, log) => all + of(log), 0)
  const rows = sum(({ partitions }) => partitions.reduce((all, partition) => all + partition.rows, 0))
  const written = sum(log => log.written)
  const compared = contents ? ', with every column' : ''
  lines.push(
    holds
      ? `ok: the target has all ${rows} rows${compared}; ${written} were copied now`
      : `the target does not have every row: ${written} of ${rows} were copied now`,
  )
  return `${lines.join('\n')}\n`
}

function logWords({ log, name, writer, partitions, dropped, not_copied: lacking, first }: LogCopy): string[] {
  const lines = [`log ${plain(name)} (${log} in both stores), writer ${plain(writer)}`, '']
  for (const { partition, position, rows, target_rows: others, differing } of partitions) {
    const stands = position === undefined ? '' : `, the writer continues at ${position}`
    lines.push(`partition ${partition}: ${rows} rows${others === rows ? '' : `, ${others} in the target`}${stands}`)
    for (const { from, to } of differing.slice(0, firstMax)) lines.push(`  WRONG  offsets ${from} to ${to - 1} differ`)
    if (differing.length > firstMax) lines.push(`         and ${differing.length - firstMax} more ranges`)
  }
  if (dropped > 0) lines.push(`${dropped} documents without fields, of which the target keeps nothing`)
  if (lacking > 0) lines.push(`NOT COPIED  ${lacking} messages, which stay in the source:`)
  for (const { id, rule, reason } of first) lines.push(`            ${id} ${rule}: ${plain(reason)}`)
  if (lacking > first.length) lines.push(`            and ${lacking - first.length} more`)
  return [...lines, '']
}
