// Decodes one message for the tools, and turns a DecodeError into a sentence.

import { InvalidArgumentError } from 'commander'
import { DecodeError } from '../transformers/decode-error.ts'
import { logPartition } from '../transformers/log-partition.ts'
import { RecordBatch } from '../transformers/record-batch.ts'
import type { Transformer } from '../transformers/transformer.ts'
import { ToolError } from './streams.ts'

/** The time of receipt, as in an envelope. */
export interface Timestamp {
  readonly createdUs: number
  readonly createdRestNs: number
}

export function now(): Timestamp {
  return { createdUs: Date.now() * 1000, createdRestNs: 0 }
}

/**
 * Unix seconds with up to nine decimals: `1700000000.5`.
 *
 * @throws InvalidArgumentError, which the command line shows with the option's name
 */
export function parseSeconds(text: string): Timestamp {
  const [, whole, fraction = ''] = /^(\d{1,10})(?:\.(\d{1,9}))?$/.exec(text) ?? []
  if (whole === undefined) throw new InvalidArgumentError('Give Unix seconds, as in 1700000000 or 1700000000.5.')
  return timestampOf(BigInt(whole) * 1_000_000_000n + BigInt(fraction.padEnd(9, '0')))
}

/**
 * Unix nanoseconds: `1700000000000000000`.
 *
 * @throws InvalidArgumentError
 */
export function parseNanoseconds(text: string): Timestamp {
  if (!/^\d{1,19}$/.test(text)) throw new InvalidArgumentError('Give Unix nanoseconds, as in 1700000000000000000.')
  return timestampOf(BigInt(text))
}

function timestampOf(nanoseconds: bigint): Timestamp {
  const createdUs = Number(nanoseconds / 1000n)
  if (!Number.isSafeInteger(createdUs)) throw new InvalidArgumentError('Give a time before the year 2255.')
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
  { createdUs, createdRestNs }: Timestamp,
  subtopic = '',
): RecordBatch {
  const origin = { channel: '', subtopic, publisher: '', protocol: '' }
  const batch = new RecordBatch()
  batch.beginMessage({ at: logPartition(0, 0), offset: 0, ...origin })
  explained(() => transformer.decode(payload, { ...origin, contentType: '', createdUs, createdRestNs }, batch))
  batch.endMessage()
  return batch
}

/** Calls `run`; a DecodeError becomes a ToolError that reads `what is wrong (the rule): what to do`. */
export function explained<T>(run: () => T): T {
  try {
    return run()
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error
    const hint = error.hint === '' ? '' : `: ${error.hint}`
    throw new ToolError(`${error.message} (rule ${error.rule})${hint}`, { cause: error })
  }
}
