// Removes what is kept of channels when they are deleted: within a second, or, if the change was missed, when this process follows the changes again.

import { pause } from '../../config/aborting.ts'
import type { Logger } from '../../config/logger.ts'
import { type AccessControl, AccessUnavailableError, deletedChannelsMax } from '../../control-plane/client.ts'
import { LogUnavailableError } from '../log.ts'

export interface KeptByChannel<Topic> {
  /** Resolves when everything that is kept is known. @throws LogUnavailableError */
  ready(): Promise<void>
  channels(): Iterable<string>
  messagesOf(channel: string): Iterable<Topic>
  /** @throws LogUnavailableError */
  clear(topic: Topic): Promise<void>
}

const retryMs = 1_000

/** @returns a function that stops it */
export function removeWithChannels<Topic>(access: AccessControl, kept: KeptByChannel<Topic>, logger: Pick<Logger, 'error'>): () => void {
  const stop = new AbortController()
  /** From the start, since channels may have been deleted before. */
  let isDue = true
  let isWorking = false

  async function work(): Promise<void> {
    if (isWorking) return
    isWorking = true
    while (isDue && !stop.signal.aborted) {
      isDue = false
      try {
        await sweep()
      } catch (error) {
        if (!(error instanceof AccessUnavailableError || error instanceof LogUnavailableError)) {
          logger.error({ err: error }, 'cannot remove what is kept of deleted channels')
        }
        isDue = true
        await pause(retryMs, stop.signal)
      }
    }
    isWorking = false
  }

  async function sweep(): Promise<void> {
    await kept.ready()
    const channels = [...kept.channels()]
    for (let at = 0; at < channels.length; at += deletedChannelsMax) {
      const deleted = await access.deletedChannels(channels.slice(at, at + deletedChannelsMax))
      await Promise.all(deleted.flatMap(channel => [...kept.messagesOf(channel)].map(topic => kept.clear(topic))))
    }
  }

  const forget = access.onChange(change => {
    isDue ||= change.kind === 'unheard' || (change.kind === 'channel' && [...kept.messagesOf(change.channel)].length > 0)
    if (isDue) void work()
  })
  void work()
  return () => {
    forget()
    stop.abort()
  }
}
