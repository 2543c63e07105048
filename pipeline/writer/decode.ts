// The pipeline's own checks of a message, before the transformer decodes it into the batch.

import type { Rejection } from '../../sinks/sink.ts'
import { DecodeError } from '../../transformers/decode-error.ts'
import { type LogPartition, logPartition } from '../../transformers/log-partition.ts'
import { Outcome, type RecordBatch } from '../../transformers/record-batch.ts'
import type { Transformer } from '../../transformers/transformer.ts'
import type { MessageOptions } from '../options.ts'
import { payloadSizeFault, type RawMessage } from '../source.ts'
import type { SubjectFilter } from './subject-filter.ts'

export interface DecoderOptions {
  readonly transformer: Transformer
  readonly subscribed: SubjectFilter
  readonly message: MessageOptions
  /** Milliseconds since 1970: limits `created`, which any producer can write. */
  readonly clock?: () => number
}

export interface Decoder {
  /**
   * Adds one message to the batch: its rows, or none if it is empty, filtered, or undecodable.
   *
   * @returns why it must be dead-lettered; undefined if it need not
   */
  decode(message: RawMessage, from: LogPartition, batch: RecordBatch): Rejection | undefined
}

const usPerSecond = 1e6
const usPerDay = 86_400 * usPerSecond

/**
 * In UTF-8. Subtopic and protocol are in every row of their message, so a pack of thousands of records would repeat a long one thousands of times.
 * Ingest accepts half as much, but other producers may write anything. What is longer could not be read by its id either, since readers accept as many
 * characters (`storedIdLengthMax` of the control plane's client). Stores that have channel, publisher and format in keys limit their sum as well.
 */
const idBytesMax = 2048
const protocolBytesMax = 64

export function openDecoder({ transformer, subscribed, message: limits, clock = Date.now }: DecoderOptions): Decoder {
  const earliestUs = limits.earliestSeconds * usPerSecond
  const aheadUs = limits.aheadDays * usPerDay
  const origin = { at: logPartition(0, 0), offset: 0, channel: '', subtopic: '', publisher: '', protocol: '' }

  return {
    decode(message, from, batch) {
      origin.at = from
      origin.offset = message.offset
      origin.channel = message.channel
      origin.subtopic = message.subtopic
      origin.publisher = message.publisher
      origin.protocol = message.protocol
      batch.beginMessage(origin)
      const { fault } = message
      const isSubscribed = (fault !== undefined && fault.subjectKnown !== true) || subscribed(message.channel, message.subtopic)
      if (!isSubscribed || transformer.takes?.(message.payload, message) === false) {
        batch.dropRows(Outcome.filtered)
        return undefined
      }
      const at = batch.messages.length - 1
      try {
        checkMessage(message)
        transformer.decode(message.payload, message, batch)
        batch.endMessage()
      } catch (error) {
        batch.dropRows(Outcome.deadLettered)
        return rejection(at, error)
      }
      return undefined
    },
  }

  function checkMessage(message: RawMessage): void {
    const bytes = message.payload.byteLength
    const fault = message.fault ?? (bytes > limits.payloadBytes ? payloadSizeFault(bytes, limits.payloadBytes) : undefined)
    if (fault !== undefined) throw new DecodeError(fault.rule, fault.reason, { hint: fault.hint })
    checkLength(message.channel, 'channel', idBytesMax)
    checkLength(message.publisher, 'publisher', idBytesMax)
    checkLength(message.subtopic, 'subtopic', idBytesMax)
    checkLength(message.protocol, 'protocol', protocolBytesMax)
    checkText(message.channel, 'channel')
    checkText(message.subtopic, 'subtopic')
    checkText(message.publisher, 'publisher')
    checkText(message.protocol, 'protocol')
    if (!(message.createdUs >= earliestUs && message.createdUs <= clock() * 1000 + aheadUs)) {
      throw new DecodeError(
        'time-range',
        `the message was created at ${message.createdUs / usPerSecond} s since 1970, outside the allowed times`,
        {
          hint: 'correct the clock of its producer',
        },
      )
    }
  }
}

function checkLength(text: string, part: string, bytesMax: number): void {
  // A unit of UTF-16 has at most three bytes in UTF-8.
  if (text.length * 3 <= bytesMax) return
  const bytes = Buffer.byteLength(text)
  if (bytes <= bytesMax) return
  throw new DecodeError('identifier-length', `the ${bytes} bytes of the ${part} exceed the limit of ${bytesMax}`, {
    hint: `use a shorter ${part}`,
  })
}

/** Not every store accepts a NUL, and none half a surrogate pair, which UTF-8 cannot represent. */
function checkText(text: string, part: string): void {
  if (text.isWellFormed() && !text.includes('\0')) return
  throw new DecodeError('text-characters', `the ${part} contains a NUL or half a surrogate pair`, {
    hint: `leave such characters out of the ${part}`,
  })
}

function rejection(message: number, error: unknown): Rejection {
  if (error instanceof DecodeError) {
    const { rule, record, hint, message: reason } = error
    return { message, rule, ...(record === undefined ? {} : { record }), reason, hint }
  }
  // A transformer should throw nothing else; if it does, the message becomes a dead letter.
  const reason = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  return { message, rule: 'transformer-fault', reason, hint: 'this is a bug in the transformer, not a mistake of the sender: report it' }
}
