// A client that takes nothing of its answer: the connection is cut, since what waits for it holds memory and the store.

import type { ServerResponse } from 'node:http'

/**
 * To be called before the answer is sent. Node.js notices bytes that are taken out of a piece under way; where no bytes wait it is the
 * store that is slow. Behind the answer it gives the connection the time of one that is kept alive.
 */
export function cutWhereNothingIsTaken(response: ServerResponse, idleMsMax: number): void {
  response.setTimeout(idleMsMax, () => {
    if (response.writableLength > 0) response.destroy()
    // One that has ended has no connection: the time of a request that is injected goes on behind it.
    else if (!response.writableEnded) response.socket?.setTimeout(idleMsMax)
  })
}
