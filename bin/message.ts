// One message as a tool hands it to a transformer, and what the transformer refuses as a sentence.

import { InvalidArgumentError } from 'commander'
import { DecodeError } from '../transformers/decode-error.ts'
import { RecordBatch } from '../transformers/record-batch.ts'
import type { Transformer } from '../transformers/transformer.ts'
import { ToolError } from './streams.ts'

/** When a message was received, as an envelope has it. */
export interface Instant {
  readonly createdUs: number
  readonly createdRestNs: number
}

export function now(): Instant {
  return { createdUs: Date.now() * 1000, createdRestNs: 0 }
}

/**
 * Unix seconds with up to nine decimals: `1700000000.5`.
 *
 * @throws InvalidArgumentError which the command line shows with the name of its option
 */
export function parseSeconds(text: string): Instant {
  const [, whole, fraction = ''] = /^(\d{1,10})(?:\.(\d{1,9}))?$/.exec(text) ?? []
  if (whole === undefined) throw new InvalidArgumentError('Give Unix seconds, as in 1700000000 or 1700000000.5.')
  return instantOf(BigInt(whole) * 1_000_000_000n + BigInt(fraction.padEnd(9, '0')))
}

/**
 * Unix nanoseconds: `1700000000000000000`.
 *
 * @throws InvalidArgumentError
 */
export function parseNanoseconds(text: string): Instant {
  if (!/^\d{1,19}$/.test(text)) throw new InvalidArgumentError('Give Unix nanoseconds, as in 1700000000000000000.')
  return instantOf(BigInt(text))
}

function instantOf(nanoseconds: bigint): Instant {
  const createdUs = Number(nanoseconds / 1000n)
  if (!Number.isSafeInteger(createdUs)) throw new InvalidArgumentError('Give an instant before the year 2255.')
  return { createdUs, createdRestNs: Number(nanoseconds % 1000n) }
}

/**
 * Decodes one message into a batch of its own.
 *
 * @throws ToolError with the rule that the payload breaks
 */
export function decodeMessage(
  transformer: Transformer,
  payload: Uint8Array,
  { createdUs, createdRestNs }: Instant,
  { contentType = '', subtopic = '' },
): RecordBatch {
  const origin = { channel: '', subtopic, publisher: '', protocol: '' }
  const batch = new RecordBatch()
  batch.beginMessage({ partition: 0, offset: 0, ...origin })
  explained(() => transformer.decode(payload, { ...origin, contentType, createdUs, createdRestNs }, batch))
  batch.endMessage()
  return batch
}

/** Runs a part of a transformer: a DecodeError becomes the sentence `what is wrong (the rule): what to do`. */
export function explained<T>(run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error
    const hint = error.hint === '' ? '' : `: ${error.hint}`
    throw new ToolError(`${error.message} (rule ${error.rule})${hint}`, { cause: error })
  }
}
