// What the pipeline itself asks of a message before any sink sees it; then the transformer decodes it into the batch.

import type { Rejection } from '../sinks/sink.ts'
import { DecodeError } from '../transformers/decode-error.ts'
import { Outcome, type RecordBatch } from '../transformers/record-batch.ts'
import type { Transformer } from '../transformers/transformer.ts'
import type { MessageOptions } from './options.ts'
import type { RawMessage } from './source.ts'
import type { SubjectFilter } from './subject-filter.ts'

export interface DecoderOptions {
  readonly transformer: Transformer
  readonly subscribed: SubjectFilter
  readonly message: MessageOptions
  /** Milliseconds since 1970: bounds `created`, which any producer can write. */
  readonly clock?: () => number
}

export interface Decoder {
  /**
   * Adds one message to the batch: its rows, or none where it is empty, filtered, or undecodable.
   *
   * @returns why it must be dead-lettered; undefined where it need not
   */
  decode(message: RawMessage, partition: number, batch: RecordBatch): Rejection | undefined
}

const usPerSecond = 1e6
const usPerDay = 86_400 * usPerSecond

/**
 * UTF-8. They stand in every row of their message, so that a pack of thousands of records would repeat a long one thousands of times; ingest takes
 * half as much, and any other producer of the topic may write what it likes. Channel, publisher and format are the sinks' to bound: they stand in keys.
 */
const subtopicBytesMax = 2048
const protocolBytesMax = 64

export function openDecoder({ transformer, subscribed, message: limits, clock = Date.now }: DecoderOptions): Decoder {
  const earliestUs = limits.earliestSeconds * usPerSecond
  const aheadUs = limits.aheadDays * usPerDay
  const origin = { partition: 0, offset: 0, channel: '', subtopic: '', publisher: '', protocol: '' }

  return {
    decode(message, partition, batch) {
      origin.partition = partition
      origin.offset = message.offset
      origin.channel = message.channel
      origin.subtopic = message.subtopic
      origin.publisher = message.publisher
      origin.protocol = message.protocol
      batch.beginMessage(origin)
      const { fault } = message
      if ((fault === undefined || fault.subjectKnown === true) && !subscribed(message.channel, message.subtopic)) {
        batch.dropRows(Outcome.filtered)
        return undefined
      }
      const at = batch.messages.length - 1
      try {
        checkMessage(message)
        transformer.decode(message.payload, message, batch)
      } catch (error) {
        batch.dropRows(Outcome.deadLettered)
        return rejection(at, error)
      }
      batch.endMessage()
      return undefined
    },
  }

  function checkMessage(message: RawMessage): void {
    if (message.fault !== undefined) throw new DecodeError(message.fault.rule, message.fault.reason, { hint: message.fault.hint })
    if (message.payload.byteLength > limits.payloadBytes) {
      throw new DecodeError('payload-size', `the payload has ${message.payload.byteLength} bytes, and ${limits.payloadBytes} are allowed`, {
        hint: 'send smaller packs',
      })
    }
    checkLength(message.subtopic, 'subtopic', subtopicBytesMax)
    checkLength(message.protocol, 'protocol', protocolBytesMax)
    checkText(message.channel, 'channel')
    checkText(message.subtopic, 'subtopic')
    checkText(message.publisher, 'publisher')
    checkText(message.protocol, 'protocol')
    if (!(message.createdUs >= earliestUs && message.createdUs <= clock() * 1000 + aheadUs)) {
      throw new DecodeError('time-range', `the message was created at ${message.createdUs / usPerSecond} s since 1970`, {
        hint: 'set the clock of its producer',
      })
    }
  }
}

function checkLength(text: string, part: string, bytesMax: number): void {
  // A unit of UTF-16 has three bytes at most.
  if (text.length * 3 <= bytesMax) return
  const bytes = Buffer.byteLength(text)
  if (bytes <= bytesMax) return
  throw new DecodeError('identifier-length', `the ${part} has ${bytes} bytes, and ${bytesMax} are allowed`, {
    hint: `use a shorter ${part}`,
  })
}

/** Not every store takes a NUL, and none a lone surrogate, which UTF-8 cannot hold. */
function checkText(text: string, part: string): void {
  if (text.isWellFormed() && !text.includes('\0')) return
  throw new DecodeError('text-characters', `the ${part} holds a NUL or a lone surrogate`, {
    hint: `leave such characters out of the ${part}`,
  })
}

function rejection(message: number, error: unknown): Rejection {
  if (error instanceof DecodeError) {
    const { rule, record, hint, message: reason } = error
    return { message, rule, ...(record === undefined ? {} : { record }), reason, hint }
  }
  // A transformer throws nothing else; where one does, its message is kept with the others that could not be decoded.
  const reason = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  return { message, rule: 'transformer-fault', reason, hint: 'this is a fault of the transformer, not of the sender: report it' }
}
