// What a client gets only after its session was saved (MQTT 5 §4.3.3): a message with QoS 2, so that its packet id is known on a later connection, and a PUBREL, so that
// the message is not sent again.

import type { Link } from '../link.ts'

interface SavedFirstParts {
  readonly link: Link
  /** Resolves when the session is saved, and still this connection's. */
  readonly save: () => Promise<void>
  /** Something was sent. */
  readonly onSent: () => void
  readonly onFailed: (error: unknown) => void
}

const waitingBytesMax = 65_536

export type SavedFirst = ReturnType<typeof openSavedFirst>

export function openSavedFirst({ link, save, onSent, onFailed }: SavedFirstParts) {
  let messages: { readonly head: Buffer; readonly payload: Uint8Array }[] = []
  /** Once each, however often a client sends a PUBREC. */
  let releases = new Set<number>()
  let waitingBytes = 0
  let isSaving = false

  async function work(): Promise<void> {
    if (isSaving) return
    isSaving = true
    try {
      while (messages.length + releases.size > 0) {
        const [saved, released] = [messages, releases]
        messages = []
        releases = new Set()
        await save()
        for (const { head, payload } of saved) link.deliver(head, payload)
        for (const messageId of released) link.send({ cmd: 'pubrel', messageId })
        waitingBytes = 0
        onSent()
      }
    } finally {
      isSaving = false
    }
  }

  return {
    get hasSpace(): boolean {
      return waitingBytes < waitingBytesMax
    },
    deliver(head: Buffer, payload: Uint8Array): void {
      messages.push({ head, payload })
      waitingBytes += head.length + payload.length
      work().catch(onFailed)
    },
    release(messageId: number): void {
      releases.add(messageId)
      work().catch(onFailed)
    },
  }
}
