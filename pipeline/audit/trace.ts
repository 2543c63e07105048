// Traces one message through the log, the store and the dead letters.

import type { AuditedLog, StoreAudit, Whereabouts } from '../../sinks/audit.ts'
import { type ErasedMessages, erasedMessages } from '../../sinks/erasure.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { Outcome, RecordBatch, senmlFormat } from '../../transformers/record-batch.ts'
import type { DeadLetterQueue } from '../dead-letters/queue.ts'
import type { DeadLetterSummary } from '../dead-letters/summary.ts'
import type { MessageId } from '../message-id.ts'
import type { RawMessage } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import type { TopicReader } from '../topic-reader.ts'
import type { Decoder } from '../writer/decode.ts'
import { expectedRows } from './expected-rows.ts'
import { type CommittedOf, knownLog, positionsOf } from './verify.ts'
import { whereabouts } from './whereabouts.ts'

export interface TraceParts {
  readonly id: MessageId
  readonly reader: TopicReader
  readonly audit: StoreAudit
  /** The writer's name, which counts if several writers write this topic and the id does not name one of their logs. */
  readonly writer: string
  /** The same transformer, subjects and limits as the writer's. */
  readonly decoder: Decoder
  /** The dead letters of the writer that owns the store; undefined if there is no such topic. */
  readonly deadLettersOf: (writer: string) => Promise<Pick<DeadLetterQueue, 'list'> | undefined>
  readonly committed?: CommittedOf
  /** If the writer runs in this process: why it is retrying or has failed; undefined while it works. */
  readonly trouble?: () => string | undefined
}

/** Texts come from devices: escape them before printing them on a terminal. */
export interface TraceReport {
  readonly id: string
  readonly topic: string
  readonly writer: string
  /** The message in the log; undefined if it is not there. */
  readonly received?: {
    /** ISO 8601 with nanoseconds. */
    readonly time: string
    readonly channel: string
    readonly subtopic: string
    readonly publisher: string
    readonly protocol: string
    readonly content_type: string
    readonly bytes: number
  }
  /** Why the log has no such message. */
  readonly absent?: string
  /** Whether the writer subscribes to its subject. */
  readonly matched?: boolean
  readonly decoded?: { readonly records: number; readonly format: string }
  readonly refused?: { readonly rule: string; readonly reason: string; readonly record?: number; readonly hint?: string }
  /** `unknown`: the log no longer has the message, so its rows cannot be looked up in the store. */
  readonly state: 'stored' | 'erased' | 'waiting' | 'retrying' | 'dead-lettered' | 'filtered' | 'empty' | 'missing' | 'unknown'
  readonly rows?: number
  /** The last erasure that reached the message: how many rows it may have left, and when it began (ISO 8601); or a retention, and when it ran last. */
  readonly erased?: { readonly id: string; readonly time: string; readonly rows_left: number; readonly retention?: true }
  /** The writer's position in the partition; undefined before it has started. */
  readonly position?: number
  readonly letter?: DeadLetterSummary
  /** Why the writer is not making progress. */
  readonly trouble?: string
  /** The path, relative to the reader's URL, at which it can be read. */
  readonly read?: string
  /** A statement for the store's own shell that shows its rows. */
  readonly statement?: string
}

/** @throws SystemicError if the id names another log, or a partition that does not exist */
export async function trace({ id, reader, audit, writer, decoder, deadLettersOf, committed, trouble }: TraceParts): Promise<TraceReport> {
  const { partition, offset } = id
  const logs = await audit.logs()
  const named = logs.filter(log => log.name === reader.name && log.id === reader.id && String(log.number) === id.log)
  const known = knownLog(named.length > 0 ? named : logs, reader, writer)
  checkLog(id, known)
  const bounds = (await reader.bounds()).get(partition)
  if (bounds === undefined) throw new SystemicError(`the topic ${reader.name} has no partition ${partition}`)
  const position = ((await committed?.(known.writer, reader))?.offsets ?? positionsOf(known)).get(partition)
  const messageId = `${known.number}-${partition}-${offset}`
  const deadLetters = await deadLettersOf(known.writer)
  const deadLetter = (await deadLetters?.list({ ids: [messageId], topicId: known.id }, 1))?.letters[0]
  const base = {
    id: messageId,
    topic: reader.name,
    writer: known.writer,
    ...(position === undefined ? {} : { position }),
    ...(deadLetter === undefined ? {} : { letter: deadLetter }),
  }
  const erased = erasedMessages(await audit.erasures(), known)
  const seen = offset >= bounds.start && offset < bounds.end ? await look(reader, decoder, erased, partition, offset) : undefined
  if (seen === undefined) {
    return { ...base, absent: absence(offset, bounds), state: deadLetter === undefined ? 'unknown' : 'dead-lettered' }
  }

  const { received, outcome, records, where, refused, erasedBy } = seen
  const rows = where === undefined ? 0 : await audit.rowsOf(known.number, partition, offset, where)
  const statement = rows === 0 ? undefined : audit.statementOf?.(known.number, partition, offset, where!)
  const waiting = position === undefined || offset >= position
  const problem = waiting ? trouble?.() : undefined
  return {
    ...base,
    received,
    matched: outcome !== Outcome.filtered,
    ...(records > 0 ? { decoded: { records, format: where!.format } } : {}),
    ...(refused === undefined ? {} : { refused }),
    state: stateOf(),
    rows,
    ...(erasedBy === undefined ? {} : { erased: erasedBy }),
    ...(problem === undefined ? {} : { trouble: problem }),
    ...(rows > 0 ? { read: readPath(where!), ...(statement === undefined ? {} : { statement }) } : {}),
  }

  function stateOf(): TraceReport['state'] {
    // A store without transactions keeps the rows that it accepted before it rejected another row of the message.
    const isPartial = deadLetter?.partial === true && rows < records
    if (rows > 0 && !isPartial) return 'stored'
    if (waiting) return problem === undefined ? 'waiting' : 'retrying'
    if (deadLetter !== undefined) return 'dead-lettered'
    if (outcome === Outcome.filtered) return 'filtered'
    if (outcome === Outcome.empty) return 'empty'
    return erasedBy?.rows_left === 0 ? 'erased' : 'missing'
  }
}

/** @throws SystemicError */
function checkLog({ log }: MessageId, known: AuditedLog): void {
  if (log === '' || log === known.name || log === String(known.number)) return
  throw new SystemicError(
    `the message is from the log ${JSON.stringify(log)}, but this writer reads ${JSON.stringify(known.name)}, which is number ${known.number} in its store`,
  )
}

function absence(offset: number, { start, end }: { start: number; end: number }): string {
  if (offset >= end) return `the partition ends at offset ${end}: this message does not exist yet`
  if (offset < start) return `the log has deleted it: the partition starts at offset ${start}`
  return 'the log has no message at this offset: it was compacted, or is a transaction marker'
}

/** The message as the writer sees it; undefined if there is none at the offset. */
async function look(reader: TopicReader, decoder: Decoder, erased: ErasedMessages, partition: number, offset: number) {
  for await (const chunk of reader.read(partition, offset, offset + 1)) {
    const cursor = chunk.cursor()
    if (!cursor.next()) continue
    const batch = new RecordBatch()
    const refused = decoder.decode(cursor.message, logPartition(0, partition), batch)
    const { rule, reason, record, hint } = refused ?? {}
    const where = whereabouts(batch, 0)
    const times = erased.of(cursor.message, partition, offset, where?.format)
    const { rows, least } = expectedRows(batch, 0, 0, times)
    return {
      erasedBy:
        times === undefined || rows === least
          ? undefined
          : {
              id: times.erasure.id,
              time: new Date(times.erasure.startedMs).toISOString(),
              rows_left: least,
              ...(times.erasure.retention === true ? { retention: true as const } : {}),
            },
      received: receipt(cursor.message),
      outcome: batch.messages.outcome[0]!,
      records: batch.rowCount,
      where,
      refused:
        rule === undefined || reason === undefined
          ? undefined
          : { rule, reason, ...(record === undefined ? {} : { record }), ...(hint === undefined ? {} : { hint }) },
    }
  }
  return undefined
}

function receipt({ channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, payload }: RawMessage) {
  return {
    time: timestampText(createdUs, createdRestNs),
    channel,
    subtopic,
    publisher,
    protocol,
    content_type: contentType,
    bytes: payload.byteLength,
  }
}

/** ISO 8601 with nanoseconds; the number if it is beyond the range of Date. */
export function timestampText(us: number, restNs: number): string {
  const date = new Date(Math.floor(us / 1e6) * 1000)
  if (Number.isNaN(date.getTime())) return `${us} us`
  const fraction = String((((us % 1e6) + 1e6) % 1e6) * 1000 + restNs).padStart(9, '0')
  return date.toISOString().replace('.000Z', `.${fraction}Z`)
}

function readPath({ channel, format }: Whereabouts): string {
  const query = format === senmlFormat ? '' : `?format=${encodeURIComponent(format.toWellFormed())}`
  return `/channels/${encodeURIComponent(channel.toWellFormed())}/messages${query}`
}
