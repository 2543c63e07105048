// The internal listener over TLS, only for clients of one authority.
//
// fixtures/ holds an authority, a certificate of it for each side, and one of no authority, made once with openssl and valid for a century.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { openRemoteAccess, type RemoteAccess } from '../../../control-plane/remote/access.ts'
import { readTlsFiles } from '../../../http/tls-files.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { makeSite } from '../../up/operator.ts'
import { controlPlaneOutage, recordingLogger } from '../platform.ts'
import { credentialOf, openInstance } from './instance.ts'

const fixture = (name: string): string => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url))
const pem = (name: string): string => readFileSync(fixture(name), 'utf8')

interface Shown {
  readonly certFile?: string
  readonly keyFile?: string
  readonly caFile?: string
}

describeWithPostgres('mutual TLS', postgres => {
  async function openRemote(url: string, shown: Shown): Promise<RemoteAccess> {
    const access = openRemoteAccess({
      url,
      tls: await readTlsFiles('control', shown),
      outage: controlPlaneOutage(recordingLogger().logger),
      answerMsMax: 60_000,
      streamMsMax: 60_000,
    })
    onTestFinished(() => access.close())
    return access
  }
  const authority = { caFile: fixture('ca.pem') }
  const client = { certFile: fixture('client.pem'), keyFile: fixture('client-key.pem') }
  const stranger = { certFile: fixture('stranger.pem'), keyFile: fixture('stranger-key.pem') }

  test('only clients with a certificate of the authority get answers and changes, without a token', async () => {
    const tls = { cert: pem('server.pem'), key: pem('server-key.pem'), ca: pem('ca.pem') }
    const { platform, internalUrl } = await openInstance(await postgres.createDatabase(), { tls, token: undefined })
    const site = await makeSite(platform.url)
    const request = { credential: credentialOf(site.device), channel: site.channel, action: 'publish' } as const

    const known = await openRemote(internalUrl, { ...authority, ...client })
    expect(await known.authorize(request)).toMatchObject({ allowed: true, publisher: site.thing })
    await expect.poll(() => known.check().then(() => 'followed', String)).toBe('followed')
    // Without a certificate, with one of another authority, and with a client that does not know the server's authority.
    const unknowns = [
      [authority, /is unavailable/],
      [{ ...authority, ...stranger }, /is unavailable/],
      [client, /its certificate is not trusted .*control\.ca_file \(SVC_CONTROL_CA_FILE\)/],
    ] as const
    for (const [shown, reason] of unknowns) {
      const unknown = await openRemote(internalUrl, shown)
      await expect(unknown.authorize(request)).rejects.toThrow(reason)
      await expect(unknown.check()).rejects.toThrow(/no changes arrive/)
    }
    const plain = await openRemote(internalUrl.replace('https', 'http'), {})
    await expect(plain.authorize(request)).rejects.toThrow(/is unavailable/)
    await expect(plain.reach()).rejects.toThrow(/speaks TLS: write control\.url \(SVC_CONTROL_URL\) with https/)
  })
})

test('files that are missing, not PEM, or not the key of the certificate are reported with their option before anything is opened', async () => {
  const files = { certFile: fixture('server.pem'), keyFile: fixture('server-key.pem'), caFile: fixture('ca.pem') }
  expect(Object.keys((await readTlsFiles('internal', files))!)).toEqual(['cert', 'key', 'ca'])
  expect(await readTlsFiles('internal', {})).toBeUndefined()
  await expect(readTlsFiles('internal', { ...files, keyFile: fixture('absent.pem') })).rejects.toThrow(
    /internal\.key_file: the file ".*absent\.pem" cannot be read \(ENOENT\)/,
  )
  for (const wrong of [
    { certFile: fileURLToPath(import.meta.url) },
    { keyFile: fixture('client-key.pem') },
    { caFile: fixture('server-key.pem') },
  ]) {
    const failed = readTlsFiles('internal', { ...files, ...wrong })
    await expect(failed).rejects.toMatchObject({ name: 'SecretError', message: expect.stringMatching(/TLS cannot be opened with/) })
  }
})
