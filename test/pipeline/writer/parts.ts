// The parts of a writer on fakes: a log and a dead-letter log in memory, and a store that can be away, refuse, or be advanced by another writer.

import { pino } from 'pino'
import { Registry } from 'prom-client'
import { type Outages, openOutages } from '../../../config/outage.ts'
import type { BatchOptions } from '../../../pipeline/options.ts'
import { openDeadLetters } from '../../../pipeline/writer/dead-letters.ts'
import { pipelineMetrics } from '../../../pipeline/writer/metrics.ts'
import { openWriter, type Writer, type WriterDependency } from '../../../pipeline/writer/writer.ts'
import type { Sink } from '../../../sinks/sink.ts'
import type { LogPartition } from '../../../transformers/log-partition.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { createFakeStore, type FakeEncoded, type FakeStore, openFakeSink } from '../../sinks/fake-sink.ts'
import { type FakeLog, openFakeLog } from '../fake-log.ts'
import { type FakeSource, openFakeSource } from '../fake-source.ts'
import { numbers } from './numbers.ts'
import { type RecordingLogger, recordingLogger } from './workers/recording-logger.ts'

/** What remains when a writer ends. */
export interface World {
  readonly log: FakeLog
  readonly deadLetters: FakeLog
  readonly store: FakeStore
  readonly registry: Registry
  readonly outages: Outages<WriterDependency>
  /** Log lines of outages. */
  readonly lines: RecordingLogger['lines']
}

export function makeWorld(registry = new Registry()): World {
  const { logger, lines } = recordingLogger()
  const outages = openOutages(logger, registry, 'writer', { log: 'the log', store: 'the store', dead_letters: 'the dead letters' })
  const deadLetters = openFakeLog('messages.dead-letters.writer')
  return { log: openFakeLog(), deadLetters, store: createFakeStore(), registry, outages, lines }
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
  readonly transformer?: Transformer
  /** Names of further logs that the source reads, as `wrap` creates it. */
  readonly otherLogs?: readonly string[]
  readonly chunkMessagesMax?: number
  readonly drainMsMax?: number
  readonly onStateChange?: () => void
  readonly wrap?: (source: FakeSource) => FakeSource
  readonly wrapSink?: (sink: Sink<FakeEncoded>) => Sink<FakeEncoded>
}

/** Opens a writer, like a process that starts. */
export async function startWriter(world: World, settings: Settings = {}): Promise<Running> {
  const { log, deadLetters, store, registry, outages } = world
  const otherLogs = settings.otherLogs ?? []
  const topics = [log.name, ...otherLogs]
  const openedSink = await openFakeSink({ store, logId: log.id, otherLogs, unnumbered: true })
  const sink = settings.wrapSink?.(openedSink) ?? openedSink
  const startAt = (of: readonly LogPartition[]) => sink.positions!(of)
  const opened = openFakeSource(log, {
    ...(sink.positions === undefined ? {} : { startAt }),
    ...(settings.chunkMessagesMax === undefined ? {} : { chunkMessagesMax: settings.chunkMessagesMax }),
  })
  const source = settings.wrap?.(opened) ?? opened
  const writer = openWriter({
    name: 'writer',
    topics,
    source,
    sink,
    transformer: settings.transformer ?? numbers,
    deadLetters: openDeadLetters({
      logOf: async () => deadLetters,
      topics,
      logIds: [log.id, ...otherLogs.map(() => log.id)],
      logNumbers: sink.logNumbers,
      writer: 'writer',
    }),
    options: {
      ...defaults,
      batch: { ...defaults.batch, ...settings.batch },
      subscriber: { subjects: settings.subjects ?? ['channels.>'] },
    },
    metrics: pipelineMetrics(registry, 'writer', topics),
    outages,
    logger: pino({ level: 'silent' }),
    backOff: { waitMsMin: 1, waitMsMax: 4 },
    drainMsMax: settings.drainMsMax ?? 60_000,
    ...(settings.onStateChange === undefined ? {} : { onStateChange: settings.onStateChange }),
    clock: () => 1_700_000_100_000,
  })
  return { writer, source }
}

/** The values in the store, in the order stored. */
export function stored(store: FakeStore): (number | undefined)[] {
  return store.rows.map(({ value }) => value)
}

/** The offsets in the dead letters, in order. */
export function deadOffsets(deadLetters: FakeLog): number[] {
  return deadLetters.messages.map(({ headers }) => Number(headers?.find(({ key }) => key === 'sluice.offset')?.value))
}
