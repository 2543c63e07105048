// The metadata of a payload: its sender, channel, time and content type.

/**
 * The envelope of one message, as stored in the log. A missing part is the empty string.
 * The time is split so that it stays exact without a bigint: nanoseconds = createdUs × 1000 + createdRestNs.
 */
export interface Envelope {
  /** The channel's id: the key of the message in the log. */
  channel: string
  /** Dotted, may be empty: `bedroom.temperature`. */
  subtopic: string
  /** The id of the thing that sent it. */
  publisher: string
  /** `http`, `mqtt`, `kafka`. */
  protocol: string
  /** The media type without parameters, lower case; empty if the sender set none. */
  contentType: string
  /** When the message was received: whole microseconds since 1970, a safe integer. */
  createdUs: number
  /** The nanoseconds beyond createdUs: 0 to 999. */
  createdRestNs: number
}
