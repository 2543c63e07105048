// Dead letters: messages that cannot be decoded or stored, kept unchanged together with the reason.
//
// The headers are those of Kafka Connect (DeadLetterQueueReporter and Stage of its runtime), so that tools for its dead letter queues can read them,
// and sluice's in addition: `sluice.log`, `sluice.partition` and `sluice.offset` identify the message in its store, as long as the number
// `sluice.log` belongs to the topic with the id `sluice.log-id`.

import type { LogNumbers, Rejection } from '../../sinks/sink.ts'
import { type LogPartition, logOf, partitionOf } from '../../transformers/log-partition.ts'
import { timestampHeader } from '../envelope/source.ts'
import { envelopeHeaderNames } from '../envelope-headers.ts'
import { type Header, type Log, MessageRefusedError, messageSize, type OutgoingMessage } from '../log.ts'
import type { RawChunk } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import type { PendingBatch } from './batch.ts'

/** The stage at which a message failed. */
export type DeadLetterStage = 'decode' | 'store'

/** A message and the reason. */
export interface DeadLetter {
  readonly stage: DeadLetterStage
  readonly at: LogPartition
  readonly offset: number
  readonly rejection: Rejection
  /** As it was in the log; its headers without those of the envelope. */
  readonly message: OutgoingMessage
  /** If the message has no envelope: the value of `timestampHeader`. */
  readonly timestamp?: string
}

/** The topic of a writer's dead letters. */
export function deadLettersTopic(topic: string, writer: string): string {
  return `${topic}.dead-letters.${writer}`
}

export interface DeadLetters {
  /**
   * Resolves when all these dead letters are durable. The iterable is read step by step, so that not all have to exist at once.
   *
   * If the log refuses a message, for example because it is too large, its dead letter has no content, and its size in the header
   * `sluice.shortened`: the position says where the whole message is. So nothing that a message has can keep its dead letter from being written.
   *
   * @throws LogUnavailableError if not all are durable: none or some, so a second call can duplicate one
   * @throws SystemicError if the log refuses even a dead letter of which nothing comes from the message
   */
  put(deadLetters: Iterable<DeadLetter>): Promise<void>
}

export interface DeadLettersOptions {
  /** The log of the dead letters of a log, by its index: `<topic>.dead-letters.<writer>`. Called again for each append. */
  readonly logOf: (log: number) => Promise<Pick<Log, 'append'>>
  /** The topics of the messages, by the index of the log. */
  readonly topics: readonly string[]
  /** The ids of the same topics: numbers are used again, and a replay must not take the letter for one of another log. */
  readonly logIds: readonly string[]
  /** The numbers under which the store knows them: `sink.logNumbers`. Each has one before its first dead letter. */
  readonly logNumbers: LogNumbers
  /** The writer: `relational`. */
  readonly writer: string
}

/** The most bytes of one append, so that it fits through the queue of the log beside others. */
const appendBytesMax = 1024 * 1024

/** The id of the topic that the message was in. */
export const logIdHeader = 'sluice.log-id'
/** In a dead letter without its message's content: the bytes of the message. */
export const shortenedHeader = 'sluice.shortened'
/** `true` if the message may have rows in its store: a store without transactions stored them before it refused another. */
export const partialHeader = 'sluice.partial'
/** For all its texts together; an id or a subtopic has at most some hundred characters. */
const shortEnvelopeLengthMax = 8192
/** Reasons and hints can quote the message, or a store that does. */
const reasonLengthMax = 2048
/** The headers that do not come from the message, and are all that a dead letter needs. */
const ownHeaderNames: ReadonlySet<string> = new Set([
  '__connect.errors.topic',
  '__connect.errors.stage',
  'sluice.log',
  logIdHeader,
  'sluice.partition',
  'sluice.offset',
  'sluice.rule',
  partialHeader,
  shortenedHeader,
])

/** Dead letters of one log of messages, up to an append. */
interface Group {
  readonly deadLetters: DeadLetter[]
  readonly messages: OutgoingMessage[]
}

export function openDeadLetters({ logOf: openLog, topics, logIds, logNumbers, writer }: DeadLettersOptions): DeadLetters {
  function outgoing({ stage, at, offset, rejection, message, timestamp }: DeadLetter): OutgoingMessage {
    const partition = String(partitionOf(at))
    const { rule, record, reason, hint, partial = false } = rejection
    const headers: Header[] = [
      { key: '__connect.errors.topic', value: topics[logOf(at)]! },
      { key: '__connect.errors.partition', value: partition },
      { key: '__connect.errors.offset', value: String(offset) },
      { key: '__connect.errors.connector.name', value: writer },
      { key: '__connect.errors.task.id', value: '0' },
      { key: '__connect.errors.stage', value: connectStage(stage, rule) },
      { key: '__connect.errors.class.name', value: stage === 'decode' ? 'transformer' : 'sink' },
      { key: '__connect.errors.exception.class.name', value: rule },
      { key: '__connect.errors.exception.message', value: bounded(reason) },
      { key: 'sluice.log', value: String(logNumbers[logOf(at)]) },
      { key: logIdHeader, value: logIds[logOf(at)]! },
      { key: 'sluice.partition', value: partition },
      { key: 'sluice.offset', value: String(offset) },
      { key: 'sluice.rule', value: rule },
    ]
    if (record !== undefined) headers.push({ key: 'sluice.record', value: String(record) })
    if (hint !== undefined && hint !== '') headers.push({ key: 'sluice.hint', value: bounded(hint) })
    if (partial) headers.push({ key: partialHeader, value: 'true' })
    if (timestamp !== undefined) headers.push({ key: timestampHeader, value: timestamp })
    return { ...message, headers: [...(message.headers ?? []), ...headers] }
  }

  /** A dead letter without content: the reason, the position, and the envelope if it is small. */
  function shortened(deadLetter: DeadLetter): OutgoingMessage {
    const { message } = deadLetter
    const { channel, subtopic, publisher, protocol, contentType } = message
    const envelopeLength = channel.length + subtopic.length + publisher.length + protocol.length + contentType.length
    const { headers = [], ...envelope } = outgoing({ ...deadLetter, message: { ...message, headers: [] } })
    const bytes = String(messageSize(message))
    return {
      ...envelope,
      ...(message.key === undefined && envelopeLength <= shortEnvelopeLengthMax ? {} : { channel: '', key: null }),
      payload: new Uint8Array(0),
      headers: [...headers, { key: shortenedHeader, value: bytes }],
    }
  }

  /** A dead letter of which nothing comes from the message. It has a key, because a compacted topic refuses a message without one. */
  function bare(deadLetter: DeadLetter): OutgoingMessage {
    const { headers = [], payload } = shortened(deadLetter)
    return {
      channel: '',
      subtopic: '',
      publisher: '',
      protocol: '',
      contentType: '',
      createdUs: Date.now() * 1000,
      createdRestNs: 0,
      payload,
      headers: headers.filter(({ key }) => ownHeaderNames.has(key)),
      key: Buffer.from(`${partitionOf(deadLetter.at)}-${deadLetter.offset}`),
    }
  }

  /** If the log refuses a group because of one message, others of the group may be stored: they are then duplicated, which does no harm. */
  async function append(log: Pick<Log, 'append'>, { deadLetters, messages }: Group): Promise<void> {
    if ((await refusalOf(log, messages)) === undefined) return
    for (const [at, deadLetter] of deadLetters.entries()) {
      let refusal: MessageRefusedError | undefined
      const forms = [() => messages[at]!, () => shortened(deadLetter), () => bare(deadLetter)]
      // It was just refused.
      if (deadLetters.length === 1) forms.shift()
      for (const form of forms) {
        refusal = await refusalOf(log, [form()])
        if (refusal === undefined) break
      }
      if (refusal !== undefined) throw refusesAll(deadLettersTopic(topics[logOf(deadLetter.at)]!, writer), refusal)
    }
  }

  return {
    async put(deadLetters) {
      /** By log. */
      const groups = new Map<number, Group>()
      let bytes = 0
      async function appendAll(): Promise<void> {
        for (const [log, group] of groups) await append(await openLog(log), group)
        groups.clear()
        bytes = 0
      }
      for (const deadLetter of deadLetters) {
        const message = outgoing(deadLetter)
        const messageBytes = messageSize(message)
        if (bytes > 0 && bytes + messageBytes > appendBytesMax) await appendAll()
        const log = logOf(deadLetter.at)
        const group = groups.get(log) ?? { deadLetters: [], messages: [] }
        groups.set(log, group)
        group.deadLetters.push(deadLetter)
        group.messages.push(message)
        bytes += messageBytes
      }
      await appendAll()
    },
  }
}

/** Why the log refuses the messages; undefined if they are durable. @throws LogUnavailableError */
async function refusalOf(log: Pick<Log, 'append'>, messages: readonly OutgoingMessage[]): Promise<MessageRefusedError | undefined> {
  try {
    await log.append(messages)
    return undefined
  } catch (error) {
    if (error instanceof MessageRefusedError) return error
    throw error
  }
}

function refusesAll(topic: string, cause: MessageRefusedError): SystemicError {
  return new SystemicError(
    `the topic ${topic} refuses even a dead letter that has only the position of its message (${cause.message}): correct its settings`,
    { cause },
  )
}

/** The beginning of a long text. */
function bounded(text: string): string {
  return text.length <= reasonLengthMax ? text : `${text.slice(0, reasonLengthMax).toWellFormed()}…`
}

function connectStage(stage: DeadLetterStage, rule: string): string {
  if (stage === 'store') return 'TASK_PUT'
  return rule === 'no-key' || rule === 'key-text' ? 'KEY_CONVERTER' : 'VALUE_CONVERTER'
}

/**
 * The dead letters of rejected messages. Each raw message is found again in the chunks of its batch when its dead letter is requested.
 *
 * @throws SystemicError if the batch does not have the message of a rejection: without a dead letter it would be lost
 */
export function* deadLettersOf(
  pending: PendingBatch,
  rejections: readonly Rejection[],
  stage: DeadLetterStage,
): Generator<DeadLetter, void, undefined> {
  const { messages } = pending.batch
  const wanted = new Map<LogPartition, Map<number, Rejection>>()
  for (const rejection of rejections) {
    if (!(rejection.message >= 0 && rejection.message < messages.length)) throw unknownMessage(rejection)
    const at = messages.at[rejection.message]!
    const offset = messages.offset[rejection.message]!
    const partitionRejections = wanted.get(at)
    if (partitionRejections === undefined) wanted.set(at, new Map([[offset, rejection]]))
    else if (!partitionRejections.has(offset)) partitionRejections.set(offset, rejection)
  }
  for (const chunk of pending.chunks) {
    const partitionRejections = wanted.get(chunk.at)
    if (partitionRejections !== undefined) yield* deadLettersIn(chunk, partitionRejections, stage)
  }
  for (const partitionRejections of wanted.values()) for (const rejection of partitionRejections.values()) throw unknownMessage(rejection)
}

function unknownMessage({ message, rule }: Rejection): SystemicError {
  return new SystemicError(
    `a rejection (${rule}) names message ${message}, which is not in its batch: this is a bug in the sink, report it`,
  )
}

/** Removes the dead letters of one chunk from `wanted`. */
function* deadLettersIn(chunk: RawChunk, wanted: Map<number, Rejection>, stage: DeadLetterStage): Generator<DeadLetter, void, undefined> {
  const cursor = chunk.cursor()
  while (wanted.size > 0 && cursor.next()) {
    const raw = cursor.message
    const rejection = wanted.get(raw.offset)
    if (rejection === undefined) continue
    wanted.delete(raw.offset)
    const { channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, payload } = raw
    const envelope = { channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, payload }
    const headers = cursor.headers()
    const value = cursor.value?.()
    // An envelope that cannot be decoded stays as it was, and so does one that is part of the value.
    const about = { stage, at: chunk.at, offset: raw.offset, rejection }
    if (raw.fault === undefined && value === undefined) {
      yield { ...about, message: { ...envelope, headers: headers.filter(({ key }) => !envelopeHeaderNames.has(key)) } }
      continue
    }
    const message = { ...envelope, payload: value ?? payload, headers, key: cursor.key() }
    yield { ...about, message, ...(cursor.parts === undefined ? {} : { timestamp: String(cursor.parts.timestampUs() ?? 'none') }) }
  }
}
