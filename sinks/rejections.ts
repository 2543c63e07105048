// The messages that a store refuses, kept with their encoded batch, so that each gets one dead letter however often the batch is written.

import { unlessAborted } from '../config/aborting.ts'
import type { FormatRefusal } from './formats.ts'
import type { Reject, Rejection } from './sink.ts'

export interface Rejections {
  /** Messages that the store can never store, by their index: found while encoding the batch or while writing it. */
  readonly rejected: Map<number, Rejection>
  /** The rejected messages whose dead letters are durable. */
  readonly acknowledged: Set<number>
}

export function noRejections(): Rejections {
  return { rejected: new Map(), acknowledged: new Set() }
}

/**
 * Makes the missing dead letters durable. After an abort they are still written, but nothing waits for them.
 *
 * @param isSettled true for messages whose dead letters an earlier batch made durable
 */
export async function acknowledge(
  { rejected, acknowledged }: Rejections,
  reject: Reject,
  signal: AbortSignal,
  isSettled: (message: number) => boolean = () => false,
): Promise<void> {
  if (rejected.size === acknowledged.size) return
  const rejections = [...rejected.values()].filter(({ message }) => !acknowledged.has(message) && !isSettled(message))
  if (rejections.length === 0) return
  rejections.sort((one, other) => one.message - other.message)
  await unlessAborted(reject(rejections), signal)
  for (const { message } of rejections) acknowledged.add(message)
}

/** A JSON format in a batch, and the messages that use it. */
export interface FormatOfBatch {
  readonly format: string
  readonly messages: Iterable<number>
}

/** Rejects the messages of formats that the store refuses. */
export function rejectFormats(
  { rejected }: Rejections,
  formats: readonly FormatOfBatch[],
  refused: ReadonlyMap<string, FormatRefusal>,
): void {
  for (const { format, messages } of formats) {
    const refusal = refused.get(format)
    if (refusal === undefined) continue
    for (const message of messages) if (!rejected.has(message)) rejected.set(message, { message, ...refusal })
  }
}
