// What a reader is asked for, checked and in one form for every store.

/** Every statement that reaches a store carries the channel. */
export interface Query {
  readonly channel: string
  /** `messages` for SenML, else a JSON format: the last part of the subtopic. Comes from a stranger. */
  readonly format: string
  /** Only what this thing published; undefined: the whole channel. */
  readonly publisher: string | undefined
  readonly offset: number
  readonly limit: number
}
