// Reads TLS certificates and keys from PEM files, and checks them before they are used.

import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext, type TlsOptions } from 'node:tls'
import { SecretError } from '../config/secrets.ts'

export interface TlsFiles {
  readonly certFile?: string
  readonly keyFile?: string
  readonly caFile?: string
}

export interface TlsTexts {
  readonly cert?: string
  readonly key?: string
  readonly ca?: string
}

/** Each as PEM. */
export interface ServerTls {
  readonly cert: string
  readonly key: string
  /** Only clients with a certificate of this authority may connect. */
  readonly ca?: string
  /** Asks clients for a certificate, but accepts any or none: the code that reads it (client-certificate.ts) decides. */
  readonly asksForCertificate?: boolean
}

/** What Node.js's servers take. */
export function tlsServerOptions({ asksForCertificate = false, ...texts }: ServerTls): TlsOptions {
  const hasAuthority = texts.ca !== undefined
  return { ...texts, requestCert: asksForCertificate || hasAuthority, rejectUnauthorized: hasAuthority, minVersion: 'TLSv1.2' }
}

/**
 * @param section of the options, for the message: `internal`
 * @returns undefined if no file is set
 * @throws SecretError if a file cannot be read, is not a certificate, or the key does not match
 */
export async function readTlsFiles(section: string, { certFile, keyFile, caFile }: TlsFiles): Promise<TlsTexts | undefined> {
  if (certFile === undefined && keyFile === undefined && caFile === undefined) return undefined
  const texts = {
    ...(certFile === undefined ? {} : { cert: await readPem(`${section}.cert_file`, certFile) }),
    ...(keyFile === undefined ? {} : { key: await readPem(`${section}.key_file`, keyFile) }),
    ...(caFile === undefined ? {} : { ca: await readPem(`${section}.ca_file`, caFile) }),
  }
  try {
    // The context itself accepts a CA file without a certificate, and would then trust no client.
    for (const certificate of [texts.cert, texts.ca]) if (certificate !== undefined) void new X509Certificate(certificate)
    createSecureContext(texts)
  } catch (cause) {
    const files = [certFile, keyFile, caFile].filter(path => path !== undefined).join(', ')
    throw new SecretError(`TLS cannot be opened with ${files}: give certificates as PEM, and the private key of the first one`, {
      cause,
    })
  }
  return texts
}

/** Like `readTlsFiles`, for a server: undefined without a certificate and its key. */
export async function readServerTls(section: string, files: TlsFiles): Promise<ServerTls | undefined> {
  const { cert, key, ca } = (await readTlsFiles(section, files)) ?? {}
  return cert === undefined || key === undefined ? undefined : { cert, key, ...(ca === undefined ? {} : { ca }) }
}

async function readPem(option: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new SecretError(`${option}: the file ${JSON.stringify(path)} cannot be read (${code}): give the path of a PEM file`, { cause })
  }
}
