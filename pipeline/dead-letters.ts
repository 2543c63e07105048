// Dead letters: messages that cannot be decoded or stored, put aside untouched with what is wrong with them.
//
// The headers are those of Kafka Connect (DeadLetterQueueReporter and Stage of its runtime), so that tools for its dead letter
// queues read them, and ours beside: `sluice.log`, `sluice.partition` and `sluice.offset` identify the message in its store.

import type { Rejection } from '../sinks/sink.ts'
import type { PendingBatch } from './batch.ts'
import { envelopeHeaderNames } from './envelope-headers.ts'
import { type Header, type Log, MessageRefusedError, messageSize, type OutgoingMessage } from './log.ts'
import type { RawRun } from './source.ts'
import { SystemicError } from './systemic-error.ts'

/** Where the pipeline gave up on a message. */
export type DeadLetterStage = 'decode' | 'store'

/** A message and what is wrong with it. */
export interface DeadLetter {
  readonly stage: DeadLetterStage
  /** The log that the position is of, where it is another one than that of the dead letters' options: of a replayed message. */
  readonly log?: number
  readonly partition: number
  readonly offset: number
  readonly rejection: Rejection
  /** As it was in the log; its headers without those of the envelope. */
  readonly message: OutgoingMessage
}

export interface DeadLetters {
  /**
   * Resolves when the letters are durable, all of them. They are asked for as they are put, so that not all need exist at once.
   *
   * A message too large for the topic of dead letters is put without its content, with the size in the header `sluice.shortened`: its
   * position says where the whole message lies.
   *
   * @throws LogUnavailableError when they are not: none or some, so a second put can double one
   * @throws MessageRefusedError when the log does not even take a letter without content
   */
  put(letters: Iterable<DeadLetter>): Promise<void>
}

export interface DeadLettersOptions {
  /** The log of the dead letters: `<topic>.dead-letters.<writer>`. */
  readonly log: Log
  /** The topic that the messages come from. */
  readonly topic: string
  /** The number under which the store knows that topic: `sink.logNumber`. */
  readonly logNumber: number
  /** The writer: `relational`. */
  readonly writer: string
}

/** One append holds at most so much, so that it fits through the queue of the log beside others. */
const appendBytesMax = 1024 * 1024

/** Of a letter without its message's content: the bytes that the message is counted with. */
export const shortenedHeader = 'sluice.shortened'
/** Of all its texts together; an id or a subtopic has no more than some hundred characters. */
const shortEnvelopeLengthMax = 8192

export function openDeadLetters({ log, topic, logNumber, writer }: DeadLettersOptions): DeadLetters {
  function outgoing({ stage, log = logNumber, partition, offset, rejection, message }: DeadLetter): OutgoingMessage {
    const { rule, record, reason, hint } = rejection
    const headers: Header[] = [
      { key: '__connect.errors.topic', value: topic },
      { key: '__connect.errors.partition', value: String(partition) },
      { key: '__connect.errors.offset', value: String(offset) },
      { key: '__connect.errors.connector.name', value: writer },
      { key: '__connect.errors.task.id', value: '0' },
      { key: '__connect.errors.stage', value: connectStage(stage, rule) },
      { key: '__connect.errors.class.name', value: stage === 'decode' ? 'transformer' : 'sink' },
      { key: '__connect.errors.exception.class.name', value: rule },
      { key: '__connect.errors.exception.message', value: reason },
      { key: 'sluice.log', value: String(log) },
      { key: 'sluice.partition', value: String(partition) },
      { key: 'sluice.offset', value: String(offset) },
      { key: 'sluice.rule', value: rule },
    ]
    if (record !== undefined) headers.push({ key: 'sluice.record', value: String(record) })
    if (hint !== undefined && hint !== '') headers.push({ key: 'sluice.hint', value: hint })
    return { ...message, headers: [...(message.headers ?? []), ...headers] }
  }

  /** What can always be taken of a letter: what is wrong and where the message lies, and its envelope where that is small. */
  function shortened(letter: DeadLetter): OutgoingMessage {
    const { message } = letter
    const { channel, subtopic, publisher, protocol, contentType } = message
    const envelopeLength = channel.length + subtopic.length + publisher.length + protocol.length + contentType.length
    const { headers = [], ...envelope } = outgoing({ ...letter, message: { ...message, headers: [] } })
    const bytes = String(messageSize(message))
    return {
      ...envelope,
      ...(message.key === undefined && envelopeLength <= shortEnvelopeLengthMax ? {} : { channel: '', key: null }),
      payload: new Uint8Array(0),
      headers: [...headers, { key: shortenedHeader, value: bytes }],
    }
  }

  /** What the log refuses for good it refuses as part of a group, too, whose others may be there then: they are doubled, and count once. */
  async function append(letters: readonly DeadLetter[], messages: readonly OutgoingMessage[]): Promise<void> {
    try {
      await log.append(messages)
    } catch (error) {
      if (!(error instanceof MessageRefusedError)) throw error
      if (letters.length === 1) await log.append([shortened(letters[0]!)])
      else for (const [at, letter] of letters.entries()) await append([letter], [messages[at]!])
    }
  }

  return {
    async put(letters) {
      let group: DeadLetter[] = []
      let messages: OutgoingMessage[] = []
      let bytes = 0
      for (const letter of letters) {
        const message = outgoing(letter)
        const messageBytes = messageSize(message)
        if (group.length > 0 && bytes + messageBytes > appendBytesMax) {
          await append(group, messages)
          group = []
          messages = []
          bytes = 0
        }
        group.push(letter)
        messages.push(message)
        bytes += messageBytes
      }
      if (group.length > 0) await append(group, messages)
    },
  }
}

function connectStage(stage: DeadLetterStage, rule: string): string {
  if (stage === 'store') return 'TASK_PUT'
  return rule === 'no-key' || rule === 'key-text' ? 'KEY_CONVERTER' : 'VALUE_CONVERTER'
}

/**
 * The letters of rejected messages: each raw message is found again in the runs of its batch, when its letter is asked for.
 *
 * @throws SystemicError when a rejection names a message that the batch does not hold: without its letter it would be lost
 */
export function* deadLettersOf(
  pending: PendingBatch,
  rejections: readonly Rejection[],
  stage: DeadLetterStage,
): Generator<DeadLetter, void, undefined> {
  const { messages } = pending.batch
  const wanted = new Map<number, Map<number, Rejection>>()
  for (const rejection of rejections) {
    if (!(rejection.message >= 0 && rejection.message < messages.length)) throw unknownMessage(rejection)
    const partition = messages.partition[rejection.message]!
    const offset = messages.offset[rejection.message]!
    const ofPartition = wanted.get(partition)
    if (ofPartition === undefined) wanted.set(partition, new Map([[offset, rejection]]))
    else if (!ofPartition.has(offset)) ofPartition.set(offset, rejection)
  }
  for (const run of pending.runs) {
    const ofPartition = wanted.get(run.partition)
    if (ofPartition !== undefined) yield* lettersOf(run, ofPartition, stage)
  }
  for (const ofPartition of wanted.values()) for (const rejection of ofPartition.values()) throw unknownMessage(rejection)
}

function unknownMessage({ message, rule }: Rejection): SystemicError {
  return new SystemicError(
    `a rejection (${rule}) names message ${message}, which its batch does not hold: this is a fault of the sink, report it`,
  )
}

/** Takes the letters of one run out of `wanted`. */
function* lettersOf(run: RawRun, wanted: Map<number, Rejection>, stage: DeadLetterStage): Generator<DeadLetter, void, undefined> {
  const cursor = run.cursor()
  while (wanted.size > 0 && cursor.next()) {
    const raw = cursor.message
    const rejection = wanted.get(raw.offset)
    if (rejection === undefined) continue
    wanted.delete(raw.offset)
    const { channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, payload } = raw
    const envelope = { channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, payload }
    const headers = cursor.headers()
    const value = cursor.value?.()
    // An envelope that cannot be read stays as it was, with its fault in it; and so does one that lies in the value.
    const message =
      raw.fault === undefined && value === undefined
        ? { ...envelope, headers: headers.filter(({ key }) => !envelopeHeaderNames.has(key)) }
        : { ...envelope, payload: value ?? payload, headers, key: cursor.key() }
    yield { stage, partition: run.partition, offset: raw.offset, rejection, message }
  }
}
