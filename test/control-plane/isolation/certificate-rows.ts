// Certificates: a thing's owner issues, views and revokes them; the list of revoked ones is public (SPEC §4, §5).

import { expect } from 'vitest'
import { type At, isOwner, pageOf, type Row, text, wholePage } from './row.ts'
import { callers } from './world.ts'

const route = { takes: 'tokens' } as const
const thing = ({ site }: At) => ({ parameters: { thing: site.thing.id } })
const thingIdField = ({ site }: At) => ({ thing_id: site.thing.id })
const serial = ({ site }: At) => ({ parameters: { serial: site.certificate } })
const kept = ({ site }: At) => ({ thing_id: site.thing.id, cert: text, cert_serial: site.certificate, expiration: text })
const issued = ({ site }: At) => expect.objectContaining({ ThingID: site.thing.id, ClientCert: text, ClientKey: text }) as unknown
const revoked = () => ({ revocation_time: text, RevocationTime: text })

export const certificateRows: readonly Row[] = [
  {
    ...route,
    route: 'POST /certs',
    allowed: isOwner,
    status: 201,
    changes: 'more',
    request: at => ({ body: { ...thingIdField(at), key_type: 'ec' } }),
    answer: issued,
  },
  {
    ...route,
    route: 'POST /certs/{serial}/renew',
    allowed: isOwner,
    status: 201,
    changes: 'more',
    request: serial,
    answer: issued,
  },
  { ...route, route: 'GET /certs/{serial}', allowed: isOwner, status: 200, request: serial, answer: kept },
  {
    ...route,
    route: 'GET /serials/{thing}',
    allowed: isOwner,
    status: 200,
    request: at => ({ ...thing(at), query: wholePage }),
    answer: at => pageOf('certs', [kept(at)], {}),
    queries: ['?offset=50&limit=100'],
  },
  {
    ...route,
    route: 'DELETE /certs/revoke',
    allowed: isOwner,
    status: 200,
    changes: 'site',
    request: at => ({ body: thingIdField(at) }),
    answer: revoked,
  },
  { ...route, route: 'DELETE /certs/{thing}', allowed: isOwner, status: 200, changes: 'site', request: thing, answer: revoked },
  { ...route, route: 'GET /certs/crl', allowed: callers, status: 200, request: () => ({}), answer: () => text },
]
