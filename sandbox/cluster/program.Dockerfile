# The sandbox's pause and CoreDNS images: one static program each; the context is the folder of the built binaries.
FROM scratch
ARG PROGRAM
COPY ${PROGRAM} /program
ENTRYPOINT ["/program"]
