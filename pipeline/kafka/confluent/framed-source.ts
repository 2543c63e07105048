// Wraps a source or a topic reader so that framed messages are decoded: a chunk is returned when the schemas of all its messages are known.

import { pause } from '../../../config/aborting.ts'
import { LogUnavailableError } from '../../log.ts'
import type { OnStart, RawChunk, Source } from '../../source.ts'
import type { TopicReader } from '../../topic-reader.ts'
import { waitBefore } from '../../writer/retry.ts'
import { openFramedCursor, schemaIdOf } from './framed-cursor.ts'
import { patience, type Schemas } from './schemas.ts'

/**
 * A source that decodes framed messages. Its chunks also throw LogUnavailableError if the registry is needed but away,
 * and SystemicError if it rejects our credentials.
 */
export function withConfluentFraming(source: Source, schemas: Schemas): Source {
  return {
    async *chunks(signal, onStart, onShare) {
      let over = signal
      const begin: OnStart = (positions, revoked, ends) => {
        over = AbortSignal.any([signal, revoked])
        onStart?.(positions, revoked, ends)
      }
      const chunks = source.chunks(signal, begin, onShare)
      for await (const chunk of chunks) {
        const framed = await framedChunk(chunk, schemas, over)
        // If undefined, the source ends by itself, with its own error.
        if (framed !== undefined) yield framed
      }
    },
    ends: () => source.ends(),
    commit: positions => source.commit(positions),
    close: () => source.close(),
  }
}

/** The same for a topic reader, for tools. */
export function framedTopicReader(reader: TopicReader, schemas: Schemas): TopicReader {
  return {
    name: reader.name,
    id: reader.id,
    partitions: reader.partitions,
    bounds: () => reader.bounds(),
    async *read(partition, from, to) {
      const stop = new AbortController()
      for await (const chunk of reader.read(partition, from, to)) yield (await framedChunk(chunk, schemas, stop.signal))!
    },
    close: () => reader.close(),
  }
}

/** @returns undefined if `signal` aborts before the schemas are known */
async function framedChunk(chunk: RawChunk, schemas: Schemas, signal: AbortSignal): Promise<RawChunk | undefined> {
  if (signal.aborted) return undefined
  const ids = schemaIdsOf(chunk)
  // An unavailable registry is retried before it counts as an outage; meanwhile, earlier chunks are stored.
  const untilMs = performance.now() + patience.ms
  for (let failures = 1; ; failures++) {
    try {
      const decodings = schemas.known(ids) ?? (await schemas.decodings(ids, signal))
      return { ...chunk, cursor: () => openFramedCursor(chunk.cursor(), decodings) }
    } catch (error) {
      if (signal.aborted) return undefined
      if (!(error instanceof LogUnavailableError) || performance.now() > untilMs) throw error
    }
    await pause(waitBefore(failures, patience), signal)
  }
}

function schemaIdsOf(chunk: RawChunk): Set<number> {
  const ids = new Set<number>()
  const cursor = chunk.cursor()
  const { message } = cursor
  let last = -1
  while (cursor.next()) {
    const id = schemaIdOf(message.payload)
    if (id === last || id === -1) continue
    ids.add(id)
    last = id
  }
  return ids
}
