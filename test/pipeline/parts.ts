// The parts of a writer on fakes: a log and a dead-letter log in memory, and a store that can be away, refuse, or go on without us.

import { pino } from 'pino'
import { Registry } from 'prom-client'
import { type Outages, openOutages } from '../../config/outage.ts'
import { openDeadLetters } from '../../pipeline/dead-letters.ts'
import { pipelineMetrics } from '../../pipeline/metrics.ts'
import type { BatchOptions } from '../../pipeline/options.ts'
import { openWriter, type Writer, type WriterDependency } from '../../pipeline/writer.ts'
import type { Sink } from '../../sinks/sink.ts'
import { createFakeStore, type FakeEncoded, type FakeStore, openFakeSink } from '../sinks/fake-sink.ts'
import { type FakeLog, openFakeLog } from './fake-log.ts'
import { type FakeSource, openFakeSource } from './fake-source.ts'
import { numbers } from './numbers.ts'
import { type RecordingLogger, recordingLogger } from './workers/recording-logger.ts'

/** What outlives a writer. */
export interface World {
  readonly log: FakeLog
  readonly letters: FakeLog
  readonly store: FakeStore
  readonly registry: Registry
  readonly outages: Outages<WriterDependency>
  /** Of the outages. */
  readonly lines: RecordingLogger['lines']
}

export function makeWorld(registry = new Registry()): World {
  const { logger, lines } = recordingLogger()
  const outages = openOutages(logger, registry, 'writer', { log: 'the log', store: 'the store', dead_letters: 'the dead letters' })
  const letters = openFakeLog('messages.dead-letters.writer')
  return { log: openFakeLog(), letters, store: createFakeStore(), registry, outages, lines }
}

export const defaults = {
  batch: { rows: 10, bytes: 1_000_000, ageMs: 5 },
  message: { payloadBytes: 256 * 1024, earliestSeconds: 2 ** 28, aheadDays: 366 },
  subscriber: { subjects: ['channels.>'] },
}

export interface Running {
  readonly writer: Writer
  readonly source: FakeSource
}

export interface Settings {
  readonly batch?: Partial<BatchOptions>
  readonly subjects?: string[]
  readonly runMessagesMax?: number
  readonly drainMsMax?: number
  readonly onStateChange?: () => void
  readonly wrap?: (source: FakeSource) => FakeSource
  readonly wrapSink?: (sink: Sink<FakeEncoded>) => Sink<FakeEncoded>
}

/** Opens a writer on the world, as a process does when it starts. */
export async function startWriter(world: World, settings: Settings = {}): Promise<Running> {
  const { log, letters, store, registry, outages } = world
  const openedSink = await openFakeSink({ store, logId: log.id })
  const sink = settings.wrapSink?.(openedSink) ?? openedSink
  const startAt = (partitions: readonly number[]) => sink.positions!(partitions)
  const opened = openFakeSource(log, {
    ...(sink.positions === undefined ? {} : { startAt }),
    ...(settings.runMessagesMax === undefined ? {} : { runMessagesMax: settings.runMessagesMax }),
  })
  const source = settings.wrap?.(opened) ?? opened
  const writer = openWriter({
    name: 'writer',
    source,
    sink,
    transformer: numbers,
    deadLetters: openDeadLetters({ log: letters, topic: log.name, logNumber: sink.logNumber, writer: 'writer' }),
    options: {
      ...defaults,
      batch: { ...defaults.batch, ...settings.batch },
      subscriber: { subjects: settings.subjects ?? ['channels.>'] },
    },
    metrics: pipelineMetrics(registry, 'writer'),
    outages,
    logger: pino({ level: 'silent' }),
    backOff: { waitMsMin: 1, waitMsMax: 4 },
    drainMsMax: settings.drainMsMax ?? 1000,
    ...(settings.onStateChange === undefined ? {} : { onStateChange: settings.onStateChange }),
    clock: () => 1_700_000_100_000,
  })
  return { writer, source }
}

/** The values in the store, in the order stored. */
export function stored(store: FakeStore): (number | undefined)[] {
  return store.rows.map(({ value }) => value)
}

/** The offsets that the dead letters name, in order. */
export function deadOffsets(letters: FakeLog): number[] {
  return letters.messages.map(({ headers }) => Number(headers?.find(({ key }) => key === 'sluice.offset')?.value))
}
