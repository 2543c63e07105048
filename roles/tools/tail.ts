// `./sluice tail`: follows the messages of a topic and prints a line for each. Exit code 0: ended by --count, Ctrl-C or the reader of its
// output; 2: the topic cannot be read.

import { randomBytes } from 'node:crypto'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Consumer, KafkaMessage } from 'kafkajs'
import { recordText } from '../../bin/resolved-text.ts'
import { ToolError } from '../../bin/streams.ts'
import { stopOnSignals } from '../../config/signals.ts'
import { timestampText } from '../../pipeline/audit/trace.ts'
import { type LaidOut, openLaidOutCursor } from '../../pipeline/envelope/cursor.ts'
import { openAdmin } from '../../pipeline/kafka/connection.ts'
import { layoutOfMessages } from '../../pipeline/kafka/messages.ts'
import { mediaType } from '../../pipeline/kafka/records/media-type.ts'
import { emptyMessage, noKey, type RawCursor, type RawMessage } from '../../pipeline/source.ts'
import type { TopicBounds } from '../../pipeline/topic-reader.ts'
import { type Decoder, openDecoder } from '../../pipeline/writer/decode.ts'
import { type SubjectFilter, subjectFilter } from '../../pipeline/writer/subject-filter.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { configuredTransformer } from '../../transformers/select.ts'
import { canonicalId } from '../../transformers/uuid.ts'
import { answering } from './failure.ts'
import { addConnectionOptions, answeredByKafkajs, type ConnectionFlags, kafkajsFailure, openTopicClient } from './kafkajs.ts'
import type { Sources } from './target/flags.ts'
import { jsonLine, short } from './text.ts'

interface TailFlags extends ConnectionFlags {
  readonly channel?: string
  readonly subtopic?: string
  readonly name?: string
  readonly fromBeginning?: boolean
  readonly last?: number
  readonly count?: number
  readonly json?: boolean
}

/** What is used of a message. */
export type FetchedMessage = Pick<KafkaMessage, 'offset' | 'key' | 'value' | 'timestamp' | 'headers'>

/** Of one fetch from a broker: its batches are decompressed in memory, all at once. */
const fetchBytes = 256 * 1024
/** How long a broker waits for messages, and therefore at most a Ctrl-C. */
const fetchWaitMs = 500
const namesCharactersMax = 80
const payloadCharactersMax = 200

/** Makes `./sluice tail`. */
export function addCommands(command: Command, sources: Sources): void {
  answering(addConnectionOptions(command))
    .option('--channel <id>', 'only messages of this channel')
    .option('--subtopic <pattern>', 'only subtopics that match; * is one part, a final > one or more')
    .option('--name <name>', 'only resolved SenML records with this name, one per line')
    .option('--from-beginning', 'start at the oldest message (default: only new messages)')
    .addOption(
      new Option('--last <n>', 'start with the last n messages of each partition').argParser(parseCount).conflicts('fromBeginning'),
    )
    .option('--count <n>', 'exit after n lines', parseCount)
    .option('--json', 'print one JSON object per line')
    .description('Prints the messages of the topic that writers read, as they arrive: time, channel, subtopic, publisher, payload.')
    .addHelpText(
      'after',
      `
Brokers and topic are set by the options of a writer (SVC_LOG_BROKERS, SVC_LOG_TOPIC …). Writers are not affected: tail reads in a separate
consumer group, sluice-tail-<random>, commits no offsets, and deletes the group on exit. The Kafka user needs Describe and Read on the
topic, and Read on groups with that prefix; with Delete on them the group is deleted immediately. The first message takes about three seconds.

Long texts are shortened, and control characters are escaped so that the terminal does not interpret them. A payload that is not UTF-8 is
printed in hexadecimal. With --json texts are complete, and a payload that is not UTF-8 is in payload_base64. Use the id with ./sluice trace.
Channel, subtopic and publisher are determined as by the writer, including its options in the section envelope. With --name, messages
that cannot be decoded are skipped.

Exit code 0: ended by --count, by Ctrl-C, or because its output was closed. 2: the topic cannot be read.

Examples:
  ./sluice tail
  ./sluice tail --channel "$CHANNEL" --subtopic 'room.*' --last 10
  ./sluice tail --name room:temperature --json | jq .record.v
  ./sluice tail --from-beginning --count 100 --json > messages.ndjson
`,
    )
    .action((flags: TailFlags) =>
      answeredByKafkajs(async () => {
        await tail(flags, sources)
        return true
      }),
    )
}

async function tail(flags: TailFlags, sources: Sources): Promise<void> {
  const matches = openFilter(flags)
  const { kafka, connection, topic, bounds, options } = await openTopicClient(flags, sources)
  const transformer = configuredTransformer(options)
  const decoder = openDecoder({ transformer, subscribed: () => true, message: options.message })
  const laidOut = layoutOfMessages(options, topic)
  const positions = new Map([...bounds].map(([partition, bound]) => [partition, startOf(bound, flags)]))
  const groupId = `sluice-tail-${randomBytes(8).toString('hex')}`
  const done = Promise.withResolvers<void>()
  done.promise.catch(() => undefined)
  const consumer = kafka.consumer({
    groupId,
    maxBytes: fetchBytes,
    maxBytesPerPartition: fetchBytes,
    maxWaitTimeInMs: fetchWaitMs,
    allowAutoTopicCreation: false,
    retry: { restartOnFailure: async error => kafkajsFailure(error, '').name !== 'SystemicError' },
  })
  followPositions(consumer, topic, positions)
  consumer.on(consumer.events.CRASH, ({ payload: { error, restart } }) => {
    const failure = kafkajsFailure(error, `the topic ${topic} cannot be read`)
    if (restart) console.error(`${failure.message}; retrying`)
    else done.reject(failure)
  })
  const stop = stopOnSignals({ onStop: () => done.resolve(), onDeadline: () => process.exit(0) })
  let left = flags.count ?? Number.POSITIVE_INFINITY
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    left = 0
    if (error.code === 'EPIPE') done.resolve()
    else done.reject(new ToolError(`standard output cannot be written (${error.code})`, { cause: error }))
  })
  try {
    await consumer.connect()
    // What is not in `positions`, a new partition, is read from its start.
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        const raw = laidOut === undefined ? rawMessageOf(message) : laidOutMessage(message, laidOut)
        if (matches(raw)) {
          for (const line of linesOf(raw, `${topic}-${partition}-${raw.offset}`, flags, decoder)) {
            if (left === 0 || stop.signal.aborted) break
            left--
            await new Promise<void>(resolve => process.stdout.write(line, () => resolve()))
          }
        }
        positions.set(partition, raw.offset + 1)
        if (left === 0) done.resolve()
      },
    })
    await done.promise
  } catch (error) {
    throw error instanceof ToolError ? error : kafkajsFailure(error, `the topic ${topic} cannot be read`)
  } finally {
    await consumer.disconnect()
    const admin = await openAdmin(connection)
    // Without the right to, it stays until the brokers remove groups that are empty.
    await admin.deleteGroups({ groups: [groupId] }).catch(() => undefined)
    await admin.close()
    stop.dispose()
  }
}

/** Each time the group is joined, also after an interruption, reading begins at the positions. */
function followPositions(consumer: Consumer, topic: string, positions: ReadonlyMap<number, number>): void {
  consumer.on(consumer.events.GROUP_JOIN, () => {
    for (const [partition, offset] of positions) consumer.seek({ topic, partition, offset: String(offset) })
  })
}

function startOf({ start, end }: TopicBounds, { fromBeginning = false, last = 0 }: TailFlags): number {
  return fromBeginning ? start : Math.max(start, end - last)
}

/** @throws ToolError for an invalid pattern */
function openFilter({ channel, subtopic }: TailFlags): (message: RawMessage) => boolean {
  let matches: SubjectFilter = () => true
  try {
    // The channel is compared for itself: it may contain dots.
    if (subtopic !== undefined) matches = subjectFilter([`channels.*.${subtopic.replaceAll('/', '.')}`])
  } catch (error) {
    throw new ToolError(`--subtopic: ${(error as Error).message}`, { cause: error })
  }
  const wanted = channel === undefined ? undefined : canonicalId(channel)
  return message => (wanted === undefined || message.channel === wanted) && matches(message.channel, message.subtopic)
}

/** The lines for a message: one, or with `--name` one for each of its records with that name. */
export function* linesOf(raw: RawMessage, id: string, flags: Pick<TailFlags, 'name' | 'json'>, decoder: Decoder): Generator<string> {
  if (flags.name === undefined) {
    yield flags.json === true ? jsonLine({ ...receipt(raw, id), ...payloadOf(raw.payload) }) : plainLine(raw, shownPayload(raw.payload))
    return
  }
  const batch = new RecordBatch(1)
  decoder.decode(raw, logPartition(0, 0), batch)
  for (let row = 0; row < batch.records.length; row++) {
    if (batch.records.name[row] !== flags.name) continue
    const record = `{${recordText(batch.records, row)}}`
    yield flags.json === true ? jsonLine({ ...receipt(raw, id), record: JSON.parse(record) as unknown }) : plainLine(raw, shortened(record))
  }
}

function plainLine(raw: RawMessage, shown: string): string {
  const names = [raw.channel, raw.subtopic, raw.publisher].map(name => (name === '' ? '-' : short(name, namesCharactersMax)))
  return `${[timestampText(raw.createdUs, raw.createdRestNs), ...names, shown].join('  ')}\n`
}

/** Escaping a long text costs more than cutting it first. */
function shortened(text: string): string {
  return short(text.slice(0, 2 * payloadCharactersMax), payloadCharactersMax)
}

function shownPayload(payload: Uint8Array): string {
  const text = textOf(payload)
  return text === undefined ? shortened(`0x${Buffer.from(payload.subarray(0, payloadCharactersMax)).toString('hex')}`) : shortened(text)
}

function payloadOf(payload: Uint8Array): { readonly payload: string } | { readonly payload_base64: string } {
  const text = textOf(payload)
  return text === undefined ? { payload_base64: Buffer.from(payload).toString('base64') } : { payload: text }
}

/** Undefined if the bytes are not UTF-8. */
function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

function receipt({ channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs }: RawMessage, id: string) {
  const time = timestampText(createdUs, createdRestNs)
  return { id, time, channel, subtopic, publisher, protocol, content_type: contentType }
}

/** The message as the pipeline's own client would read it; what is not UTF-8 in its envelope is replaced. */
export function rawMessageOf({ offset, key, value, timestamp, headers = {} }: FetchedMessage): RawMessage {
  const textOfHeader = (name: string): string => {
    return String(lastOf(headers, name) ?? '')
  }
  const created = textOfHeader('created')
  const ns = /^-?\d{1,19}$/.test(created) ? BigInt(created) : BigInt(timestamp) * 1_000_000n
  const restNs = ((ns % 1000n) + 1000n) % 1000n
  const channel = key?.toString() ?? ''
  return {
    ...emptyMessage(),
    offset: Number(offset),
    fault: channel === '' ? noKey : undefined,
    channel,
    subtopic: textOfHeader('subtopic'),
    publisher: textOfHeader('publisher'),
    protocol: textOfHeader('protocol') || 'kafka',
    contentType: mediaType(textOfHeader('content-type')),
    createdUs: Number((ns - restNs) / 1000n),
    createdRestNs: Number(restNs),
    payload: value ?? Buffer.alloc(0),
  }
}

/** The message as a writer with a section `envelope` would read it. */
export function laidOutMessage(fetched: FetchedMessage, laidOut: LaidOut): RawMessage {
  const { key, value, timestamp, headers = {} } = fetched
  const message = rawMessageOf(fetched)
  let isNext = true
  const single: RawCursor = {
    message,
    next: () => isNext && !(isNext = false),
    key: () => key,
    headers: () => [],
    parts: {
      keyText: () => givenText(key),
      headerText(name) {
        return givenText(lastOf(headers, Buffer.from(name).toString()))
      },
      timestampUs: () => Number(timestamp) * 1000,
      faultOutside: placed => (message.fault !== undefined && !placed.has('channel') ? message.fault : undefined),
    },
  }
  const cursor = openLaidOutCursor(single, laidOut)
  cursor.next()
  return { ...cursor.message, payload: value ?? Buffer.alloc(0) }
}

function lastOf(headers: NonNullable<FetchedMessage['headers']>, name: string): Buffer | string | undefined {
  const given = Object.hasOwn(headers, name) ? headers[name] : undefined
  return Array.isArray(given) ? given.at(-1) : given
}

/** Null for none or an empty one, undefined if it is not UTF-8. */
function givenText(given: Buffer | string | null | undefined): string | null | undefined {
  if (given === null || given === undefined || given.length === 0) return null
  return typeof given === 'string' ? given : textOf(given)
}

function parseCount(text: string): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (count < 1) throw new InvalidArgumentError('Give a whole number from 1 to 999999999.')
  return count
}
