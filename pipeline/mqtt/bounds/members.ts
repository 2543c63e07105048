// The accepted connections of a process, by thing and client id, within their bounds.

import type { Connection } from '../connection.ts'
import type { Session } from '../handshake.ts'
import type { MqttOptions } from '../options.ts'
import { reasons } from '../reasons.ts'

type Bounds = Pick<MqttOptions, 'thingConnectionsMax' | 'ownerConnectionsMax'>

export function openMembers({ thingConnectionsMax, ownerConnectionsMax }: Bounds) {
  const byThing = new Map<string, Map<string, Connection>>()
  const countByOwner = new Map<string, number>()

  function count({ boundedOwner }: Session, change: 1 | -1): void {
    if (boundedOwner === undefined) return
    const left = (countByOwner.get(boundedOwner) ?? 0) + change
    if (left === 0) countByOwner.delete(boundedOwner)
    else countByOwner.set(boundedOwner, left)
  }

  function leave(connection: Connection): void {
    const { session } = connection
    const sameThing = byThing.get(session.thing)
    if (sameThing?.get(session.clientId) !== connection) return
    sameThing.delete(session.clientId)
    count(session, -1)
    if (sameThing.size === 0) byThing.delete(session.thing)
  }

  return {
    *all(): Iterable<Connection> {
      for (const sameThing of byThing.values()) yield* sameThing.values()
    },
    thingConnections: (thing: string): Connection[] => [...(byThing.get(thing)?.values() ?? [])],
    /** Ends an older one with the same thing and client id. @returns why it is refused */
    join(connection: Connection): string | undefined {
      const { session } = connection
      const { thing, clientId, boundedOwner } = session
      const older = byThing.get(thing)?.get(clientId)
      if (older === undefined) {
        if ((byThing.get(thing)?.size ?? 0) >= thingConnectionsMax) {
          return `the thing has ${thingConnectionsMax} connections, and no more are allowed: close some`
        }
        if (boundedOwner !== undefined && (countByOwner.get(boundedOwner) ?? 0) >= ownerConnectionsMax) {
          return `the things of a user who registered themselves have at most ${ownerConnectionsMax} connections together: close some, or ask an administrator to lift the bounds of the user (PUT /users/<id>/bounded)`
        }
      } else {
        leave(older)
        older.end(reasons.sessionTakenOver, 'another connection has the same thing and client id')
      }
      byThing.set(thing, (byThing.get(thing) ?? new Map<string, Connection>()).set(clientId, connection))
      count(session, 1)
      return undefined
    },
    leave,
  }
}
