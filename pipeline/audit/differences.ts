// Names the columns in which rows differ from what their messages decode to: for the first faults of an audit of contents, in one more pass.

import type { StoreAudit } from '../../sinks/audit.ts'
import { differingColumns, textsOf } from '../../sinks/contents.ts'
import { packedPosition } from '../../sinks/sink.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import type { TopicReader } from '../topic-reader.ts'
import type { Decoder } from '../writer/decode.ts'
import type { PartitionFault, PartitionReport } from './partition.ts'

interface DifferencesParts {
  readonly reader: TopicReader
  readonly audit: Pick<StoreAudit, 'rows'>
  readonly decoder: Decoder
  /** The log's number in the store. */
  readonly log: number
}

/** What is known about a message whose contents differ. */
interface Differences {
  /** The texts of the rows that it decodes to, by index: the expected ones that no stored row has yet. */
  readonly missing: Map<string, string>
  readonly columns: Set<string>
  rows: number
}

/** Of the rows that messages decode to, in UTF-16 units: beyond it, the columns of further messages are not looked up. */
const textUnitsMax = 32 * 1024 * 1024

/** @returns the reports, with the differing columns in the details of their first faults */
export async function withDifferences(reports: readonly PartitionReport[], parts: DifferencesParts): Promise<PartitionReport[]> {
  const byPosition = new Map<bigint, Differences>()
  const positions = new Map<PartitionFault, bigint>()
  let units = 0
  for (const { partition, first } of reports) {
    for (const fault of first) {
      const { kind, offset } = fault
      if (kind !== 'contents differ' || offset === undefined || units > textUnitsMax) continue
      const position = packedPosition(parts.log, partition, offset)
      positions.set(fault, position)
      const missing = await expectedTexts(parts, partition, offset)
      for (const text of missing.values()) units += text.length
      byPosition.set(position, { missing, columns: new Set(), rows: 0 })
    }
  }
  if (positions.size === 0) return [...reports]
  const ranges = Array.from(byPosition.keys(), position => ({ first: position, last: position }))
  await parts.audit.rows(ranges, true, (position, _index, text) => {
    const differences = byPosition.get(position)
    if (differences !== undefined) compare(differences, text())
  })
  return reports.map(report => ({
    ...report,
    first: report.first.map(fault => {
      const position = positions.get(fault)
      return position === undefined ? fault : { ...fault, detail: wordsOf(byPosition.get(position)!, fault.detail) }
    }),
  }))
}

async function expectedTexts({ reader, decoder }: DifferencesParts, partition: number, offset: number): Promise<Map<string, string>> {
  const batch = new RecordBatch()
  for await (const chunk of reader.read(partition, offset, offset + 1)) {
    const cursor = chunk.cursor()
    if (cursor.next()) decoder.decode(cursor.message, logPartition(0, partition), batch)
  }
  return new Map(Array.from(textsOf(batch, 0, 0), text => [indexIn(text), text]))
}

function compare(differences: Differences, text: string): void {
  const expected = differences.missing.get(indexIn(text))
  differences.missing.delete(indexIn(text))
  if (text === expected) return
  differences.rows++
  for (const column of expected === undefined ? ['index'] : differingColumns(text, expected)) differences.columns.add(column)
}

/** The index follows the format. */
function indexIn(text: string): string {
  return text.split('\0', 2)[1]!
}

function wordsOf({ rows, columns }: Differences, detail: string): string {
  if (rows === 0) return `${detail}, or were not while they were compared: compare again`
  return `${rows} of its rows ${rows === 1 ? 'differs' : 'differ'} from what it decodes to, in ${[...columns].join(', ')}`
}
