// The contract of a compacted topic: records in one order, of which the last one of each key stays. Who opens it reads all of them, and then follows them.

/** What a topic is for. */
export interface CompactedTopicUse {
  /** "mqtt-sessions": a part of its name. */
  readonly name: string
  /** What is in it, for messages: "sessions of MQTT". */
  readonly what: string
  /** @param payload empty for a tombstone @returns false if it is no record of this use, and is skipped */
  readonly onRecord: (key: string, offset: number, payload: Uint8Array) => boolean
  /** All that was read counts no more, and offsets are given again. */
  readonly onLost: () => void
  /** The error of what cannot be done now: retry. */
  readonly unavailable: (cause: unknown) => Error
}

export type OpenCompactedTopic = (use: CompactedTopicUse) => CompactedTopic

export interface CompactedTopic {
  /** Whether other processes may have it open. */
  readonly isShared: boolean
  /** Whether it cannot be read now. */
  readonly isAway: boolean
  /** How long an append that was begun may take. */
  readonly appendMsMax: number
  /**
   * Resolves when everything below this offset was read, and what was there at the start.
   *
   * @throws unavailable
   */
  hasRead(offset: number): Promise<void>
  /** Resolves when everything was read that is there now. @throws unavailable */
  hasReadAll(): Promise<void>
  /**
   * @param payload undefined for a tombstone
   * @returns its offset, when it is durable
   * @throws unavailable
   */
  append(key: string, payload: Buffer | undefined): Promise<number>
  /** Waits for what is being appended; later calls reject. A second call does nothing. */
  close(): Promise<void>
}
