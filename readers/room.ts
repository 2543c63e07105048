// Room for so many of something at the same time, and for fewer of one asker: what holds memory and a connection for long.

import type { ServerResponse } from 'node:http'
import { HttpError } from '../config/http/errors.ts'

export interface Room {
  /**
   * A place, to be given back; a second time does nothing.
   *
   * @param of who asks
   * @throws HttpError `too_many_requests`, `unavailable`
   */
  take(of: string): () => void
  /**
   * Takes a place until the response is over, however it ends.
   *
   * @throws HttpError as `take`
   */
  hold(of: string, response: ServerResponse): void
}

export interface RoomLimits {
  readonly max: number
  /** Of these, places of one asker. */
  readonly eachMax: number
  /** What they are: `live streams`. */
  readonly what: string
  /** Whose those of one asker are. */
  readonly whose?: string
  /** What an asker who has too many of them does. */
  readonly advice?: string
}

export function openRoom({ max, eachMax, what, whose = 'of yours', advice = 'close some of them' }: RoomLimits): Room {
  const taken = new Map<string, number>()
  let total = 0
  const room: Room = {
    take(of) {
      const own = taken.get(of) ?? 0
      if (own >= eachMax) throw new HttpError('too_many_requests', `${own} ${what} ${whose} are open: ${advice}`)
      if (total >= max) throw new HttpError('unavailable', `as many ${what} are open as there may be: come again`)
      taken.set(of, own + 1)
      total++
      let isGiven = true
      return () => {
        if (!isGiven) return
        isGiven = false
        total--
        const left = taken.get(of)! - 1
        if (left === 0) taken.delete(of)
        else taken.set(of, left)
      }
    },
    hold(of, response) {
      const giveBack = room.take(of)
      // Who went away meanwhile is not told.
      if (response.destroyed) giveBack()
      else response.once('close', giveBack)
    },
  }
  return room
}
