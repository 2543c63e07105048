// `./sluice send`: writes messages into the topic of a writer. Exit code 0: all are acknowledged; 1: some are not; 2: nothing was sent.

import { type Command, InvalidArgumentError } from 'commander'
import { inputSize, ToolError, writeOutput } from '../../../bin/streams.ts'
import { pause } from '../../../config/aborting.ts'
import { stopOnSignals } from '../../../config/signals.ts'
import { envelopeHeaders } from '../../../pipeline/envelope-headers.ts'
import { partitionOf } from '../../../pipeline/kafka/producer/partitioner.ts'
import { answering } from '../failure.ts'
import { addConnectionOptions, answeredByKafkajs, type ConnectionFlags, kafkajsFailure, openTopicClient } from '../kafkajs.ts'
import { openProgress } from '../progress.ts'
import type { Sources } from '../target/flags.ts'
import { type Address, type InputBatch, type InputMessage, readMessages } from './input.ts'

interface SendFlags extends ConnectionFlags, Partial<Address> {
  readonly lines?: boolean
  readonly csv?: boolean
  readonly rate?: number
}

/** Limits of one request, so that its batches stay below the 1 MiB that brokers accept by default. */
const requestMessagesMax = 1000
const requestBytesMax = 512 * 1024
const messageOverheadBytes = 200
/** With a rate, the messages of this time are sent at once. */
const burstMs = 50
/** Longer than a request is retried. */
const stopMsMax = 30_000

/** Makes `./sluice send`. */
export function addCommands(command: Command, sources: Sources): void {
  answering(addConnectionOptions(command))
    .argument('[file...]', 'files, each one message; omitted or -: standard input')
    .option('--channel <id>', 'id of the channel')
    .option('--subtopic <subtopic>', 'subtopic, its parts separated by / or .')
    .option('--publisher <id>', 'id of the publishing thing (default: none)')
    .option('--content-type <type>', 'content type (default: from the file name, else application/senml+json)')
    .option('--lines', 'each line is a message, as in NDJSON')
    .option('--csv', 'each row is a message; the first row names the columns')
    .option('--rate <n>', 'messages per second (default: as fast as they are acknowledged)', parseRate)
    .description('Writes messages from files, standard input or CSV into the topic that writers read.')
    .addHelpText(
      'after',
      `
Brokers and topic are set by the options of a writer (SVC_LOG_BROKERS, SVC_LOG_TOPIC …). The topic must exist, and the Kafka user needs
Describe and Write on it. Messages go directly into the topic: the permissions of the control plane are not checked. A running
\`./sluice up\` has no Kafka topic: publish to it over HTTP.

In a CSV file the columns channel, subtopic, publisher and content_type replace the options of the same name. A column payload contains
the whole payload; without it, the other columns are the fields of a JSON document: cells that are JSON numbers become numbers, and empty
cells are omitted.

A message counts as sent when all in-sync replicas have acknowledged it; retries never duplicate it. If the brokers do not answer for
twenty seconds, sending stops and prints how many messages were acknowledged and how many may or may not be in the topic. It also stops
at the first invalid line and on Ctrl-C.

Exit code 0: all messages were sent. 1: some were not. 2: none was sent, because of an option, a file or the topic.

Examples:
  ./sluice send pack.senml --channel "$CHANNEL"
  ./sluice send --lines readings.ndjson --channel "$CHANNEL" --subtopic gps --rate 100
  ./sluice send --csv readings.csv
  echo '[{"n":"temperature","u":"Cel","v":21.5}]' | ./sluice send --channel "$CHANNEL" --subtopic attic
`,
    )
    .action((files: string[], flags: SendFlags) => answeredByKafkajs(() => send(files, flags, sources)))
}

async function send(files: readonly string[], flags: SendFlags, sources: Sources): Promise<boolean> {
  if (flags.lines === true && flags.csv === true) throw new ToolError('give either --lines or --csv')
  const kind = flags.csv === true ? 'csv' : flags.lines === true ? 'lines' : 'whole'
  const inputs = files.length === 0 ? ['-'] : files
  const sizes = await Promise.all(inputs.map(inputSize))
  const { kafka, topic, bounds, options, connection } = await openTopicClient(flags, sources)
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false })
  const progress = openProgress('bytes sent')
  let acknowledged = 0
  const said = (): string => `sent ${acknowledged.toLocaleString('en-US')} messages to ${topic}`
  const stop = stopOnSignals({ deadlineMs: stopMsMax, onDeadline: () => console.error(`stopped: ${said()}; the last ones are uncertain`) })
  try {
    await producer.connect().catch((error: unknown) => {
      throw kafkajsFailure(error, 'messages cannot be sent')
    })
    const { channel = '', subtopic = '', publisher = '', contentType = '' } = flags
    const address = { channel, subtopic, publisher, contentType }
    const input = { kind, address, payloadBytesMax: options.message.payloadBytes, signal: stop.signal } as const

    /** Sends the messages of one partition: kafkajs would repeat what it sent to one broker when another one fails. */
    const sendPortion = async (portion: readonly InputMessage[]): Promise<void> => {
      for (const [partition, messages] of Map.groupBy(portion, message => partitionOf(Buffer.from(message.channel), bounds.size))) {
        const request = { topic, acks: -1, timeout: connection.requestTimeoutMs, messages: messages.map(one => recordOf(one, partition)) }
        await producer.send(request).catch((error: unknown) => {
          const uncertain = `the next ${messages.length} may or may not be in the topic`
          throw kafkajsFailure(error, `no acknowledgement of the brokers: ${uncertain}`)
        })
        acknowledged += messages.length
      }
    }

    let takenBytes = 0
    const total = sizes.includes(0) ? 0 : sizes.reduce((sum, size) => sum + size, 0)
    const rateLimit = openRateLimit(flags.rate, stop.signal)
    try {
      for (const file of inputs) {
        for await (const batch of readMessages(file, input)) {
          for (const portion of portionsOf(batch, rateLimit.messagesMax)) {
            await rateLimit.wait(portion.length)
            if (stop.signal.aborted) break
            await sendPortion(portion)
          }
          progress.show((takenBytes += batch.bytes), total)
        }
      }
    } catch (error) {
      progress.end()
      if (!(error instanceof Error)) throw error
      if (!['ToolError', 'SystemicError', 'LogUnavailableError'].includes(error.name)) throw error
      console.error(error.message)
      await writeOutput(`stopped: ${said()}\n`)
      return false
    }
    progress.end()
    await writeOutput(stop.signal.aborted ? `stopped: ${said()}\n` : `${said()}\n`)
    return !stop.signal.aborted
  } finally {
    progress.end()
    stop.dispose()
    await producer.disconnect()
  }
}

function recordOf({ payload, channel, subtopic, publisher, contentType }: InputMessage, partition: number) {
  const createdUs = Date.now() * 1000
  const envelope = { channel, subtopic, publisher, protocol: 'kafka', contentType, createdUs, createdRestNs: 0 }
  const headers = Object.fromEntries(envelopeHeaders(envelope).map(({ key, value }) => [key, value as string]))
  return { partition, key: channel, value: Buffer.from(payload.buffer, payload.byteOffset, payload.length), headers }
}

/** Splits a batch by the limits of one request, in its order. */
function* portionsOf({ messages }: InputBatch, messagesMax: number): Generator<InputMessage[]> {
  let portion: InputMessage[] = []
  let bytes = 0
  for (const message of messages) {
    const { payload, channel, subtopic, publisher } = message
    const size = payload.length + channel.length + subtopic.length + publisher.length + messageOverheadBytes
    if (portion.length > 0 && (portion.length >= messagesMax || bytes + size > requestBytesMax)) {
      yield portion
      portion = []
      bytes = 0
    }
    portion.push(message)
    bytes += size
  }
  if (portion.length > 0) yield portion
}

interface RateLimit {
  /** How many messages may be sent at once. */
  readonly messagesMax: number
  /** Waits until `messages` more may be sent, or a signal aborts. */
  readonly wait: (messages: number) => Promise<void>
}

function openRateLimit(rate: number | undefined, signal: AbortSignal): RateLimit {
  if (rate === undefined) return { messagesMax: requestMessagesMax, wait: async () => undefined }
  let dueMs = performance.now()
  return {
    messagesMax: Math.min(requestMessagesMax, Math.max(1, Math.floor((rate * burstMs) / 1000))),
    async wait(messages) {
      const nowMs = performance.now()
      // What was not sent in time is not made up for.
      dueMs = Math.max(dueMs, nowMs - burstMs)
      if (dueMs > nowMs) await pause(dueMs - nowMs, signal)
      dueMs += (messages * 1000) / rate
    },
  }
}

function parseRate(text: string): number {
  const rate = /^\d+(\.\d+)?$/.test(text) ? Number(text) : 0
  if (!(rate >= 0.01 && rate <= 1_000_000)) throw new InvalidArgumentError('Give messages per second, from 0.01 to 1000000.')
  return rate
}
