// The description of the API: every route is in it, with its answers and its security.

import { expect, onTestFinished, test } from 'vitest'
import { openapiRoutes } from '../../http/openapi/openapi.ts'
import { createServer } from '../../http/server.ts'
import { type Document, resolved } from '../http/document-faults.ts'
import { routesOf } from './isolation/rows.ts'
import { describePlatformOnServer, openPlatform, recordingLogger } from './platform.ts'

describePlatformOnServer('openapi', platform => {
  test('each endpoint has a tag, a summary, its security and its answers; the deprecated ones are marked', async () => {
    const app = createServer({ logger: recordingLogger().logger })
    openapiRoutes(app, { version: '0' })
    await app.register(platform().plane.routes)
    const { paths } = resolved((await app.inject('/openapi.json')).json<Document>())
    await app.close()

    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
    )
    const described = Object.fromEntries(operations.map(({ name, operation }) => [name, Object.keys(operation.responses).join(' ')]))
    expect(described).toEqual({
      'POST /users': '201 400 401 403 409 413 415 421 429 431 503',
      'POST /tokens': '201 400 401 413 415 421 429 431 503',
      'GET /audit': '200 400 401 403 421 422 429 431 503',
      'GET /users': '200 400 401 403 421 422 429 431 503',
      'PUT /users': '200 400 401 403 413 415 421 429 431 503',
      'GET /users/profile': '200 400 401 403 421 429 431 503',
      'GET /users/{user}': '200 400 401 403 404 421 429 431 503',
      'PUT /users/{user}/password': '204 400 401 403 404 413 415 421 429 431 503',
      'PUT /users/{user}/disabled': '204 400 401 403 404 409 413 415 421 429 431 503',
      'PUT /users/{user}/bounded': '204 400 401 403 404 413 415 421 429 431 503',
      'PATCH /password': '201 400 401 403 413 415 421 429 431 503',
      'POST /keys': '201 400 401 403 404 409 413 415 421 429 431 503',
      'GET /keys': '200 400 401 403 421 429 431 503',
      'GET /keys/{key}': '200 400 401 403 404 421 429 431 503',
      'GET /users/{user}/keys': '200 400 401 403 404 421 429 431 503',
      'DELETE /users/{user}/keys/{key}': '204 400 401 403 404 413 415 421 429 431 503',
      'DELETE /keys/{key}': '204 400 401 403 413 415 421 429 431 503',
      'POST /things': '201 400 401 403 409 413 415 421 429 431 503',
      'POST /things/bulk': '201 400 401 403 409 413 415 421 429 431 503',
      'GET /things': '200 400 401 403 421 422 429 431 503',
      'POST /things/search': '200 400 401 403 413 415 421 422 429 431 503',
      'GET /things/{thing}': '200 400 401 403 404 421 429 431 503',
      'PUT /things/{thing}': '200 400 401 403 404 412 413 415 421 429 431 503',
      'DELETE /things/{thing}': '204 400 401 403 404 412 413 415 421 429 431 503',
      'PATCH /things/{thing}/key': '200 400 401 403 404 409 412 413 415 421 429 431 503',
      'POST /things/{thing}/share': '200 400 401 403 404 413 415 421 429 431 503',
      'DELETE /things/{thing}/share': '204 400 401 403 404 409 413 415 421 429 431 503',
      'GET /things/{thing}/channels': '200 400 401 403 404 421 429 431 503',
      'POST /channels': '201 400 401 403 409 413 415 421 429 431 503',
      'POST /channels/bulk': '201 400 401 403 409 413 415 421 429 431 503',
      'GET /channels': '200 400 401 403 421 422 429 431 503',
      'GET /channels/{channel}': '200 400 401 403 404 421 429 431 503',
      'PUT /channels/{channel}': '200 400 401 403 404 412 413 415 421 429 431 503',
      'DELETE /channels/{channel}': '204 400 401 403 404 412 413 415 421 429 431 503',
      'GET /channels/{channel}/things': '200 400 401 403 404 421 429 431 503',
      'PUT /disconnect': '200 400 401 403 404 413 415 421 429 431 503',
      'PUT /channels/{channel}/things/{thing}': '200 400 401 403 404 413 415 421 429 431 503',
      'POST /certs': '200 201 400 401 403 404 409 413 415 421 429 431 503',
      'POST /certs/{serial}/renew': '200 201 400 401 403 404 409 413 415 421 429 431 503',
      'GET /certs/{serial}': '200 400 401 403 404 421 429 431 503',
      'GET /certs/crl': '200 304 400 409 421 431 503',
      'GET /serials/{thing}': '200 400 401 403 404 421 429 431 503',
      'DELETE /certs/revoke': '200 400 401 403 404 409 413 415 421 429 431 503',
      'DELETE /certs/{thing}': '200 204 400 401 403 404 409 421 429 431 503',
      'POST /policies': '201 400 401 403 404 409 413 415 421 429 431 503',
      'PUT /policies': '204 400 401 403 404 409 413 415 421 429 431 503',
      'GET /policies/explain': '200 400 401 403 421 429 431 503',
      'POST /groups': '201 400 401 403 409 413 415 421 429 431 503',
      'GET /groups': '200 400 401 403 421 422 429 431 503',
      'GET /groups/{group}': '200 400 401 403 404 421 429 431 503',
      'PUT /groups/{group}': '200 400 401 403 404 412 413 415 421 429 431 503',
      'DELETE /groups/{group}': '204 400 401 403 404 412 413 415 421 429 431 503',
      'GET /groups/{group}/children': '200 400 401 403 404 421 429 431 503',
      'GET /groups/{group}/parents': '200 400 401 403 404 421 429 431 503',
      'POST /groups/{group}/members': '200 400 401 403 404 409 413 415 421 429 431 503',
      'DELETE /groups/{group}/members': '204 400 401 403 404 413 415 421 429 431 503',
      'GET /groups/{group}/members': '200 400 401 403 404 421 429 431 503',
      'GET /groups/users/{group}': '200 400 401 403 404 421 422 429 431 503',
      'GET /groups/things/{group}': '200 400 401 403 404 421 422 429 431 503',
      'GET /members/{member}/groups': '200 400 401 403 404 421 429 431 503',
      'POST /groups/{group}/share': '200 400 401 403 404 409 413 415 421 429 431 503',
      'DELETE /groups/{group}/share': '204 400 401 403 404 413 415 421 429 431 503',
      'POST /connect': '200 400 401 403 404 413 415 421 429 431 503',
      'DELETE /channels/{channel}/things/{thing}': '204 400 401 403 404 413 415 421 429 431 503',
      'POST /mapping': '200 201 400 401 403 409 413 415 421 429 431 503',
      'GET /mapping': '200 400 401 403 421 429 431 503',
      'DELETE /mapping/{external_id}': '204 400 401 403 404 413 415 421 429 431 503',
      'POST /things/configs': '201 400 401 403 404 409 413 415 421 429 431 503',
      'GET /things/configs': '200 400 401 403 421 429 431 503',
      'GET /things/configs/{thing}': '200 400 401 403 404 421 429 431 503',
      'PUT /things/configs/{thing}': '200 400 401 403 404 412 413 415 421 429 431 503',
      'PATCH /things/configs/certs/{thing}': '200 400 401 403 404 412 413 415 421 429 431 503',
      'PUT /things/configs/connections/{thing}': '200 400 401 403 404 412 413 415 421 429 431 503',
      'PUT /things/state/{thing}': '200 400 401 403 404 412 413 415 421 429 431 503',
      'DELETE /things/configs/{thing}': '204 400 401 403 404 412 413 415 421 429 431 503',
      'GET /things/bootstrap/{external_id}': '200 304 400 401 403 421 429 431 503',
      'POST /things/bootstrap/{external_id}/ack': '204 400 401 403 413 415 421 429 431 503',
      'POST /things/bootstrap/{external_id}/csr': '201 400 401 403 409 413 415 421 429 431 503',
    })
    for (const { operation } of operations) {
      expect(operation).toMatchObject({ tags: [expect.any(String)], summary: expect.any(String), security: expect.any(Array) })
      for (const { description } of Object.values(operation.responses)) expect(description).not.toBe('Default Response')
    }
    expect(operations.filter(({ operation }) => operation.deprecated === true).map(({ name }) => name)).toEqual([
      'POST /things',
      'POST /channels',
      'PUT /channels/{channel}/things/{thing}',
    ])
    expect(
      operations.filter(({ operation }) => operation.security!.every(one => 'user' in one) && operation.security!.length > 0),
    ).toHaveLength(operations.length - 6)
    expect(paths['/users']?.post?.responses['201']?.headers).toHaveProperty('Location')
  })

  test('only the chosen services have routes', async () => {
    const chosen = await openPlatform(platform().database, { services: ['provision', 'bootstrap'] })
    onTestFinished(() => chosen.close())
    const routes = await routesOf(chosen.plane.routes)
    expect(routes.filter(route => !/ \/(?:mapping|things\/(?:configs|state|bootstrap))/.test(route))).toEqual([])
    expect(routes).toEqual(expect.arrayContaining(['POST /mapping', 'GET /things/bootstrap/{external_id}']))
    const core = await openPlatform(platform().database, { services: ['core'] })
    onTestFinished(() => core.close())
    expect(
      (await routesOf(core.plane.routes)).filter(route => / \/(?:mapping|certs|things\/(?:configs|state|bootstrap))/.test(route)),
    ).toEqual([])
  })
})
