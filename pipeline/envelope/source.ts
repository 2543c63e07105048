// Wraps a source or a topic reader so that its messages have the envelope that a layout places.

import { logOf } from '../../transformers/log-partition.ts'
import { timestampFault } from '../kafka/records/envelope-header.ts'
import type { RawChunk, RawCursor, RecordParts, Source } from '../source.ts'
import type { TopicReader } from '../topic-reader.ts'
import { type LaidOut, openLaidOutCursor } from './cursor.ts'

/** @param laidOut by log */
export function laidOutSource(source: Source, laidOut: readonly LaidOut[]): Source {
  return {
    async *chunks(signal, onStart, onShare) {
      for await (const chunk of source.chunks(signal, onStart, onShare))
        yield laidOutChunk(chunk, cursor => openLaidOutCursor(cursor, laidOut[logOf(chunk.at)]!))
    },
    ends: () => source.ends(),
    commit: positions => source.commit(positions),
    close: () => source.close(),
  }
}

export function laidOutTopicReader(reader: TopicReader, laidOut: LaidOut): TopicReader {
  return withCursors(reader, cursor => openLaidOutCursor(cursor, laidOut))
}

/** In a dead letter whose envelope was not written: the record's timestamp, whole microseconds since 1970, or `none` if it was no time. */
export const timestampHeader = 'sluice.timestamp'
const timestampHeaderBytes = Buffer.from(timestampHeader)
const createdHeaderBytes = Buffer.from('created')

/** The messages in a dead-letter topic, whose records have another timestamp than the messages had: those get their own again. */
export function withOriginalTimes(reader: TopicReader): TopicReader {
  return withCursors(reader, originalTimes)
}

function originalTimes(cursor: RawCursor): RawCursor {
  const { message } = cursor
  const parts = cursor.parts as RecordParts

  /** As `RecordParts.timestampUs`; null in a dead letter with an envelope. */
  function originalUs(): number | null | undefined {
    const text = parts.headerText(timestampHeaderBytes)
    if (text === null) return null
    const us = Number(text)
    return Number.isSafeInteger(us) ? us : undefined
  }

  function isWithoutTime(): boolean {
    return originalUs() === undefined && parts.headerText(createdHeaderBytes) === null
  }

  return {
    ...cursor,
    next() {
      if (!cursor.next()) return false
      const us = originalUs()
      if (us !== null && parts.headerText(createdHeaderBytes) === null) {
        message.createdUs = us ?? 0
        message.createdRestNs = 0
        if (us === undefined) message.fault ??= timestampFault
      }
      return true
    },
    parts: {
      ...parts,
      timestampUs() {
        const us = originalUs()
        return us === null ? parts.timestampUs() : us
      },
      faultOutside: placed =>
        parts.faultOutside(placed) ?? (isWithoutTime() && !placed.has(timestampFault.part!) ? timestampFault : undefined),
    },
  }
}

function withCursors(reader: TopicReader, wrapped: (cursor: RawCursor) => RawCursor): TopicReader {
  return {
    name: reader.name,
    id: reader.id,
    partitions: reader.partitions,
    bounds: () => reader.bounds(),
    async *read(partition, from, to) {
      for await (const chunk of reader.read(partition, from, to)) yield laidOutChunk(chunk, wrapped)
    },
    close: () => reader.close(),
  }
}

function laidOutChunk(chunk: RawChunk, wrapped: (cursor: RawCursor) => RawCursor): RawChunk {
  return { ...chunk, cursor: () => wrapped(chunk.cursor()) }
}
