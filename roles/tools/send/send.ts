// `./sluice send`: writes messages into the topic of a writer, or publishes them over MQTT. Exit code 0: all are acknowledged; 1: some are not; 2: nothing was
// sent.

import { type Command, InvalidArgumentError, Option } from 'commander'
import { inputSize, ToolError, writeOutput } from '../../../bin/streams.ts'
import { pause } from '../../../config/aborting.ts'
import { stopOnSignals } from '../../../config/signals.ts'
import { answering } from '../failure.ts'
import { addConnectionOptions, answeredByKafkajs, type ConnectionFlags } from '../kafkajs.ts'
import { openProgress } from '../progress.ts'
import type { Sources } from '../target/flags.ts'
import type { Destination } from './destination.ts'
import { type Address, type InputBatch, type InputMessage, readMessages } from './input.ts'

interface SendFlags extends ConnectionFlags, Partial<Address> {
  readonly lines?: boolean
  readonly csv?: boolean
  readonly rate?: number
  readonly mqtt?: string
  readonly key?: string
}

/** Of the messages that are sent at once: batches stay below the 1 MiB that brokers of Kafka accept by default. */
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
    .option('--mqtt <url>', 'publish over MQTT 5 instead, with QoS 1: mqtt://127.0.0.1:1883, or mqtts://… for TLS')
    .addOption(new Option('--key <key>', 'key of the publishing thing, for --mqtt').env('SVC_THING_KEY'))
    .description('Writes messages from files, standard input or CSV into the topic that writers read, or publishes them over MQTT.')
    .addHelpText(
      'after',
      `
Brokers and topic are set by the options of a writer (SVC_LOG_BROKERS, SVC_LOG_TOPIC …). The topic must exist, and the Kafka user needs
Describe and Write on it. Messages go directly into the topic: the permissions of the control plane are not checked. A running
\`./sluice up\` has no Kafka topic: publish to it with --mqtt, or over HTTP.

With --mqtt the messages are those of one thing, whose key is the password, and whose id in --publisher is the user name. They are checked as
those of devices, and the first one that is refused ends the tool with the reason. Certificates of your own: NODE_EXTRA_CA_CERTS.

In a CSV file the columns channel, subtopic, publisher and content_type replace the options of the same name. A column payload contains
the whole payload; without it, the other columns are the fields of a JSON document: cells that are JSON numbers become numbers, and empty
cells are omitted.

A message counts as sent when all in-sync replicas have acknowledged it; retries never duplicate it. Over MQTT it counts with its PUBACK, and
nothing is retried. If no answer comes for twenty seconds, sending stops and prints how many messages were acknowledged and how many may or
may not be stored. It also stops at the first invalid line and on Ctrl-C.

Exit code 0: all messages were sent. 1: some were not. 2: none was sent, because of an option, a file or the topic.

Examples:
  ./sluice send pack.senml --channel "$CHANNEL"
  ./sluice send --lines readings.ndjson --channel "$CHANNEL" --subtopic gps --rate 100
  ./sluice send --csv readings.csv
  echo '[{"n":"temperature","u":"Cel","v":21.5}]' | ./sluice send --channel "$CHANNEL" --subtopic attic
  SVC_THING_KEY=$KEY ./sluice send --mqtt mqtt://127.0.0.1:1883 --lines readings.ndjson --channel "$CHANNEL" --subtopic gps
`,
    )
    .action((files: string[], flags: SendFlags) => answeredByKafkajs(() => send(files, flags, sources)))
}

async function send(files: readonly string[], flags: SendFlags, sources: Sources): Promise<boolean> {
  if (flags.lines === true && flags.csv === true) throw new ToolError('give either --lines or --csv')
  const kind = flags.csv === true ? 'csv' : flags.lines === true ? 'lines' : 'whole'
  const inputs = files.length === 0 ? ['-'] : files
  const sizes = await Promise.all(inputs.map(inputSize))
  const destination = await openDestination(flags, sources)
  const progress = openProgress('bytes sent')
  let acknowledged = 0
  const said = (): string => `sent ${acknowledged.toLocaleString('en-US')} messages to ${destination.name}`
  const stop = stopOnSignals({ deadlineMs: stopMsMax, onDeadline: () => console.error(`stopped: ${said()}; the last ones are uncertain`) })
  try {
    const { channel = '', subtopic = '', publisher = '', contentType = '' } = flags
    const address = { channel, subtopic, publisher, contentType }
    const input = { kind, address, payloadBytesMax: destination.payloadBytesMax, signal: stop.signal } as const
    let takenBytes = 0
    const total = sizes.includes(0) ? 0 : sizes.reduce((sum, size) => sum + size, 0)
    const rateLimit = openRateLimit(flags.rate, destination.messagesMax, stop.signal)
    try {
      for (const file of inputs) {
        for await (const batch of readMessages(file, input)) {
          for (const portion of portionsOf(batch, rateLimit.messagesMax)) {
            await rateLimit.wait(portion.length)
            if (stop.signal.aborted) break
            await destination.send(portion, count => {
              acknowledged += count
            })
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
    await destination.close()
  }
}

async function openDestination(flags: SendFlags, sources: Sources): Promise<Destination> {
  const { mqtt, key = '', publisher = '' } = flags
  if (mqtt === undefined) return (await import('./kafka.ts')).openKafkaDestination(flags, sources)
  if (flags.topic !== undefined || flags.config !== undefined) throw new ToolError('--mqtt has no --topic and no --config: leave them out')
  return (await import('./mqtt.ts')).openMqttDestination({ url: mqtt, key, publisher })
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

function openRateLimit(rate: number | undefined, messagesMax: number, signal: AbortSignal): RateLimit {
  if (rate === undefined) return { messagesMax, wait: async () => undefined }
  let dueMs = performance.now()
  return {
    messagesMax: Math.min(messagesMax, Math.max(1, Math.floor((rate * burstMs) / 1000))),
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
