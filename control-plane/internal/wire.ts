// The protocol between the control plane and its clients: the paths, the request and its answer, and the lines of the stream of changes.

import { type Static, Type } from 'typebox'
import { type AccessChange, deletedChannelsMax, storedIdLengthMax } from '../client.ts'

export const authorizePath = '/internal/authorize'
export const deletedChannelsPath = '/internal/deleted-channels'
export const changesPath = '/internal/changes'

/** Longer than any header that a device can send. */
export const secretLengthMax = 16_384

/** `POST /internal/authorize`. */
export const accessRequestSchema = Type.Object(
  {
    scheme: Type.Enum(['Thing', 'Bearer', 'Certificate', 'ThingId'], {
      description: 'The scheme of the Authorization header, a certificate, or a thing whose key a trusted broker has checked.',
    }),
    secret: Type.String({
      maxLength: secretLengthMax,
      description:
        'What follows the scheme; for a certificate its serial and its SHA-256 fingerprint, in hex, separated by a colon; for `ThingId` its id.',
    }),
    channel: Type.String({
      maxLength: storedIdLengthMax,
      description: "The channel's id; one that no user has or had can only be read, by administrators.",
    }),
    action: Type.Enum(['publish', 'read']),
    address: Type.Optional(Type.String({ maxLength: 64, description: 'Address of the client, under which unknown keys are counted.' })),
  },
  { additionalProperties: false },
)
export type AccessRequest = Static<typeof accessRequestSchema>

export const answerSchema = Type.Object({
  allowed: Type.Boolean(),
  publisher: Type.Optional(
    Type.Union([Type.String(), Type.Null()], {
      description: 'The thing whose key was sent, or the API key that publishes; null for the owner of the channel.',
    }),
  ),
  owner: Type.Optional(Type.String({ description: 'The user that the thing or the channel belongs to.' })),
  bounded: Type.Optional(Type.Boolean({ description: 'True if the owner of the publisher registered themselves, and has bounds.' })),
  ends_in_ms: Type.Optional(
    Type.Integer({
      description: 'Milliseconds until the credential itself expires; a duration, because the clocks of two machines may differ.',
    }),
  ),
  left_ms: Type.Optional(Type.Integer({ minimum: 0, description: 'For the reason limited: milliseconds until the next attempt.' })),
  reason: Type.Optional(Type.Enum(['unauthenticated', 'forbidden', 'limited'], { description: 'Why access is refused.' })),
})
export type Answer = Static<typeof answerSchema>

/** `POST /internal/deleted-channels`, and its answer. */
export const channelsSchema = Type.Object(
  { channels: Type.Array(Type.String({ maxLength: 64 }), { maxItems: deletedChannelsMax }) },
  { additionalProperties: false },
)

const sequence = Type.Integer({ minimum: 0 })
const id = Type.String({ minLength: 1, maxLength: 64 })
export const changeSchema = Type.Union([
  Type.Object({ kind: Type.Literal('disconnected'), thing: id, channel: id }),
  Type.Object({ kind: Type.Literal('thing'), thing: id }),
  Type.Object({ kind: Type.Literal('channel'), channel: id }),
  Type.Object({ kind: Type.Literal('user'), user: id }),
])

/**
 * A line of `GET /internal/changes`. A change has the number after that of the previous line, and a beat repeats that of the previous line: a
 * gap in the numbers means that something was missed. Everything committed before a beat was sent before it.
 */
export const lineSchema = Type.Union([
  Type.Object({ type: Type.Literal('beat'), sequence }),
  Type.Object({ type: Type.Literal('change'), sequence, change: changeSchema }),
])
export type Line = { type: 'beat'; sequence: number } | { type: 'change'; sequence: number; change: AccessChange }

/** Bytes of one line with its line end; no change is longer. */
export const lineBytesMax = 1_024

/** How often a beat is sent, and after which silence a client treats the stream as broken. */
export const beatMs = 1_000
export const unansweredMsMax = 3_000

/** The type of the stream: a JSON object on each line. */
export const streamType = 'application/x-ndjson'
