// What `send` sends messages to: a topic of Kafka, or a server of MQTT.

import type { InputMessage } from './input.ts'

/** Where messages go. */
export interface Destination {
  /** As people know it. */
  readonly name: string
  /** How many `send` takes at once. */
  readonly messagesMax: number
  readonly payloadBytesMax: number
  /**
   * Resolves when all are acknowledged.
   *
   * @param acknowledged called with how many more are
   * @throws ToolError, SystemicError, LogUnavailableError, which say what may or may not be stored
   */
  send(messages: readonly InputMessage[], acknowledged: (count: number) => void): Promise<void>
  close(): Promise<void>
}
