// The way of one message, told from what the log, the store and the dead letters hold of it.

import type { AuditedLog, StoreAudit, Whereabouts } from '../../sinks/audit.ts'
import { Outcome, RecordBatch, senmlFormat } from '../../transformers/record-batch.ts'
import type { Decoder } from '../decode.ts'
import type { Letter } from '../letters/letter.ts'
import type { Letters } from '../letters/letters.ts'
import type { MessageId } from '../message-id.ts'
import type { RawMessage } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import type { TopicReader } from '../topic-reader.ts'
import { type CommittedOf, knownLog, positionsOf } from './verify.ts'

export interface TraceParts {
  readonly id: MessageId
  readonly reader: TopicReader
  readonly audit: StoreAudit
  /** As the writer's: its transformer, its subjects, its limits. */
  readonly decoder: Decoder
  /** The dead letters of the writer that the store belongs to; undefined where there is no such topic. */
  readonly lettersOf: (writer: string) => Promise<Pick<Letters, 'list'> | undefined>
  readonly committed?: CommittedOf
  /** Where the writer runs in this process: why it tries again, or has failed; undefined while it runs. */
  readonly trouble?: () => string | undefined
}

/** Texts are the device's: escape them before a terminal sees them. */
export interface TraceReport {
  readonly id: string
  readonly topic: string
  readonly writer: string
  /** What the log says of it; undefined where it holds no such message. */
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
  /** `unknown`: the log does not hold it any more, so that the store cannot be asked for it. */
  readonly state: 'stored' | 'waiting' | 'retrying' | 'dead-lettered' | 'filtered' | 'empty' | 'missing' | 'unknown'
  readonly rows?: number
  /** Where the writer goes on in the partition; undefined before it has begun. */
  readonly position?: number
  readonly letter?: Letter
  /** Why the writer does not go on. */
  readonly trouble?: string
  /** Where it can be read, below the reader's URL. */
  readonly read?: string
}

/** @throws SystemicError where the id names another log, or a partition that there is none of */
export async function trace({ id, reader, audit, decoder, lettersOf, committed, trouble }: TraceParts): Promise<TraceReport> {
  const { partition, offset } = id
  const known = knownLog(await audit.logs(), reader)
  checkLog(id, known)
  const bounds = (await reader.bounds()).get(partition)
  if (bounds === undefined) throw new SystemicError(`the topic ${reader.name} has no partition ${partition}`)
  const position = ((await committed?.(known.writer, reader)) ?? positionsOf(known)).get(partition)
  const messageId = `${known.number}-${partition}-${offset}`
  const letters = await lettersOf(known.writer)
  const letter = (await letters?.list({ ids: [messageId] }, 1))?.letters[0]
  const base = {
    id: messageId,
    topic: reader.name,
    writer: known.writer,
    ...(position === undefined ? {} : { position }),
    ...(letter === undefined ? {} : { letter }),
  }
  const seen = offset >= bounds.start && offset < bounds.end ? await look(reader, decoder, partition, offset) : undefined
  if (seen === undefined) {
    return { ...base, absent: absence(offset, bounds), state: letter === undefined ? 'unknown' : 'dead-lettered' }
  }

  const { received, outcome, records, where, refused } = seen
  const rows = where === undefined ? 0 : await audit.rowsOf(known.number, partition, offset, where)
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
    ...(problem === undefined ? {} : { trouble: problem }),
    ...(rows > 0 ? { read: readPath(where!) } : {}),
  }

  function stateOf(): TraceReport['state'] {
    if (rows > 0) return 'stored'
    if (waiting) return problem === undefined ? 'waiting' : 'retrying'
    if (letter !== undefined) return 'dead-lettered'
    if (outcome === Outcome.filtered) return 'filtered'
    return outcome === Outcome.empty ? 'empty' : 'missing'
  }
}

/** @throws SystemicError */
function checkLog({ log }: MessageId, known: AuditedLog): void {
  if (log === '' || log === known.name || log === String(known.number)) return
  throw new SystemicError(
    `the message is of the log ${JSON.stringify(log)}, and this writer reads ${JSON.stringify(known.name)}, which is ${known.number} in its store`,
  )
}

function absence(offset: number, { start, end }: { start: number; end: number }): string {
  if (offset >= end) return `the partition ends at offset ${end}: there is no such message yet`
  if (offset < start) return `the log deleted it: the partition begins at offset ${start}`
  return 'the log has no message at this offset: it was compacted, or is a marker of a transaction'
}

/** The message as the writer sees it; undefined where there is none at the offset. */
async function look(reader: TopicReader, decoder: Decoder, partition: number, offset: number) {
  for await (const run of reader.read(partition, offset, offset + 1)) {
    const cursor = run.cursor()
    if (!cursor.next()) continue
    const batch = new RecordBatch()
    const refused = decoder.decode(cursor.message, partition, batch)
    const { rule, reason, record, hint } = refused ?? {}
    return {
      received: receipt(cursor.message),
      outcome: batch.messages.outcome[0]!,
      records: batch.rowCount,
      where: whereabouts(batch),
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
    time: instantText(createdUs, createdRestNs),
    channel,
    subtopic,
    publisher,
    protocol,
    content_type: contentType,
    bytes: payload.byteLength,
  }
}

/** ISO 8601 with nanoseconds; the number where it is beyond what dates can hold. */
function instantText(us: number, restNs: number): string {
  const date = new Date(Math.floor(us / 1e6) * 1000)
  if (Number.isNaN(date.getTime())) return `${us} us`
  const fraction = String((((us % 1e6) + 1e6) % 1e6) * 1000 + restNs).padStart(9, '0')
  return date.toISOString().replace('.000Z', `.${fraction}Z`)
}

/** Where the rows of the batch's one message are; undefined where it has none. */
function whereabouts({ messages, records, documents, rowCount }: RecordBatch): Whereabouts | undefined {
  if (rowCount === 0) return undefined
  const times = [...records.timeUs.subarray(0, records.length), ...documents.createdUs.subarray(0, documents.length)]
  return {
    channel: messages.channel[0]!,
    format: records.length > 0 ? senmlFormat : documents.format[0]!,
    earliestUs: times.reduce((one, other) => Math.min(one, other)),
    latestUs: times.reduce((one, other) => Math.max(one, other)),
  }
}

function readPath({ channel, format }: Whereabouts): string {
  const query = format === senmlFormat ? '' : `?format=${encodeURIComponent(format.toWellFormed())}`
  return `/channels/${encodeURIComponent(channel.toWellFormed())}/messages${query}`
}
