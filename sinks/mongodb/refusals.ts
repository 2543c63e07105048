// What no MongoDB can store, known before anything is sent: why, and what would help.

import type { Rejection } from '../sink.ts'

export type Refusal = Omit<Rejection, 'message' | 'record'>

/** MongoDB's `maxBsonObjectSize`: 16 MiB, in every version and deployment. */
export const documentBytesMax = 16 * 1024 * 1024

/** MongoDB, "Limits and Thresholds": levels of nesting in a document, itself the first. */
export const levelsMax = 100

/**
 * Bytes of channel, publisher and format together. MongoDB has no bound for what stands in an index since 4.2, so each row of a device with long
 * ids would make two long index entries; the bound is the one that other stores need.
 */
export const identifiersBytesMax = 2048

/** Thrown while a payload is being written. */
export class Unwritable extends Error {
  override readonly name = 'Unwritable'
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(refusal.reason)
    this.refusal = refusal
  }
}

export const tooLarge: Refusal = {
  rule: 'store-refused',
  reason: `its row has more than ${documentBytesMax} bytes, which is all that a document of MongoDB holds`,
  hint: 'send it in parts',
}

export const tooDeep: Refusal = {
  rule: 'store-refused',
  reason: `its row has more than ${levelsMax} levels of nesting, which is all that MongoDB takes`,
  hint: 'send it with fewer levels',
}

export const nulInKey: Refusal = {
  rule: 'store-refused',
  reason: 'a key holds a NUL, where the names of BSON end',
  hint: 'send the key without U+0000',
}

export const notFinite: Refusal = {
  rule: 'store-refused',
  reason: 'a number is beyond the largest double',
  hint: 'send it as a text',
}

export const beyondInt64: Refusal = {
  rule: 'store-refused',
  reason: 'its time is more than an int64 of nanoseconds holds, which is from 1677 to 2262',
  hint: 'check the clock of the device, or the format of the time field',
}

/** @param what names the text: `the channel` */
export function halfPair(what: string): Refusal {
  return {
    rule: 'store-refused',
    reason: `${what} holds half a surrogate pair, which is no text in UTF-8 and would be stored as another one`,
    hint: 'send whole characters',
  }
}

export function longIdentifiers(bytes: number): Refusal {
  return {
    rule: 'identifier-length',
    reason: `channel, publisher and format have ${bytes} bytes together, and the store's indexes take ${identifiersBytesMax}`,
    hint: 'use shorter ids and subtopics',
  }
}
