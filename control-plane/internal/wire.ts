// What the control plane and its clients say to each other: the paths, the question and its answer, and the lines of the stream of changes.

import { type Static, Type } from 'typebox'
import type { AccessChange } from '../client.ts'

export const authorizePath = '/internal/authorize'
export const changesPath = '/internal/changes'

/** Longer than any header that a device can send, so nobody asks with more. */
export const secretLengthMax = 16_384

/** `POST /internal/authorize`. */
export const questionSchema = Type.Object(
  {
    scheme: Type.Enum(['Thing', 'Bearer', 'Certificate'], {
      description: 'The scheme of the Authorization header that was shown, or a certificate.',
    }),
    secret: Type.String({
      maxLength: secretLengthMax,
      description: 'What stood after the scheme; of a certificate its serial and its SHA-256 fingerprint, in hex, with a colon between.',
    }),
    channel: Type.String({ maxLength: 64, description: "The channel's id; what is no id is a channel that does not exist." }),
    action: Type.Enum(['publish', 'read']),
    address: Type.Optional(Type.String({ maxLength: 64, description: 'Of the client, under which a key that no thing has is counted.' })),
  },
  { additionalProperties: false },
)
export type Question = Static<typeof questionSchema>

export const answerSchema = Type.Object({
  allowed: Type.Boolean(),
  publisher: Type.Optional(
    Type.Union([Type.String(), Type.Null()], { description: 'The thing whose key was shown; null for the owner of the channel.' }),
  ),
  owner: Type.Optional(Type.String({ description: 'The user that the thing or the channel belongs to.' })),
  ends_in_ms: Type.Optional(
    Type.Integer({ description: 'Milliseconds until the credential itself ends, so that the clocks of two machines need not agree.' }),
  ),
  left_ms: Type.Optional(Type.Integer({ minimum: 0, description: 'Where the reason is limited: how long.' })),
  reason: Type.Optional(Type.Enum(['unauthenticated', 'forbidden', 'limited'], { description: 'Why not.' })),
})
export type Answer = Static<typeof answerSchema>

const sequence = Type.Integer({ minimum: 0 })
const id = Type.String({ minLength: 1, maxLength: 64 })
export const changeSchema = Type.Union([
  Type.Object({ kind: Type.Literal('disconnected'), thing: id, channel: id }),
  Type.Object({ kind: Type.Literal('thing'), thing: id }),
  Type.Object({ kind: Type.Literal('channel'), channel: id }),
  Type.Object({ kind: Type.Literal('user'), user: id }),
])

/**
 * A line of `GET /internal/changes`. A change has the number after that of the line before, and a beat has that of the line before: with a
 * hole in the numbers something was missed. Everything committed before a beat was told before it.
 */
export const lineSchema = Type.Union([
  Type.Object({ type: Type.Literal('beat'), sequence }),
  Type.Object({ type: Type.Literal('change'), sequence, change: changeSchema }),
])
export type Line = { type: 'beat'; sequence: number } | { type: 'change'; sequence: number; change: AccessChange }

/** Of one line with its end; no change is longer. */
export const lineBytesMax = 1_024

/** How often a beat is sent, and after which silence a client takes the stream for broken. */
export const beatMs = 1_000
export const silenceMsMax = 3_000

/** The type of the stream: a JSON object on each line. */
export const streamType = 'application/x-ndjson'
