// A source, and a topic reader, of framed messages: each run is handed out when the schemas of all its messages are known.

import { setTimeout as wait } from 'node:timers/promises'
import { LogUnavailableError } from '../../log.ts'
import { waitBefore } from '../../retry.ts'
import type { OnStart, RawRun, Source } from '../../source.ts'
import type { TopicReader } from '../../topic-reader.ts'
import { openFramedCursor, schemaIdOf } from './framed-cursor.ts'
import { patience, type Schemas } from './schemas.ts'

/**
 * The source whose messages are read out of their frames. Its runs also throw a LogUnavailableError for a registry that is away while it
 * is needed, and a SystemicError for one that does not let us in.
 */
export function withConfluentFraming(source: Source, schemas: Schemas): Source {
  return {
    async *runs(signal, onStart, onShare) {
      let over = signal
      const begin: OnStart = (positions, revoked, ends) => {
        over = AbortSignal.any([signal, revoked])
        onStart?.(positions, revoked, ends)
      }
      const runs = source.runs(signal, begin, onShare)
      for await (const run of runs) {
        const framed = await framedRun(run, schemas, over)
        // The source ends by itself then, and says why.
        if (framed !== undefined) yield framed
      }
    },
    bounds: partition => source.bounds(partition),
    ends: () => source.ends(),
    commit: positions => source.commit(positions),
    close: () => source.close(),
  }
}

/** The same of a topic reader, for tools. */
export function framedTopicReader(reader: TopicReader, schemas: Schemas): TopicReader {
  return {
    name: reader.name,
    id: reader.id,
    partitions: reader.partitions,
    bounds: () => reader.bounds(),
    async *read(partition, from, to) {
      const ending = new AbortController()
      for await (const run of reader.read(partition, from, to)) yield (await framedRun(run, schemas, ending.signal))!
    },
    close: () => reader.close(),
  }
}

/** @returns undefined when `signal` aborts before the schemas are known */
async function framedRun(run: RawRun, schemas: Schemas, signal: AbortSignal): Promise<RawRun | undefined> {
  if (signal.aborted) return undefined
  const ids = schemaIdsOf(run)
  // A registry that is away is asked again before it is an outage: what lies before the run is stored meanwhile.
  const untilMs = performance.now() + patience.ms
  for (let failures = 1; ; failures++) {
    try {
      const decodings = schemas.known(ids) ?? (await schemas.decodings(ids, signal))
      return { ...run, cursor: () => openFramedCursor(run.cursor(), decodings) }
    } catch (error) {
      if (signal.aborted) return undefined
      if (!(error instanceof LogUnavailableError) || performance.now() > untilMs) throw error
    }
    // An abort ends the wait, and then the loop.
    await wait(waitBefore(failures, patience), undefined, { signal }).catch(() => undefined)
  }
}

function schemaIdsOf(run: RawRun): Set<number> {
  const ids = new Set<number>()
  const cursor = run.cursor()
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
