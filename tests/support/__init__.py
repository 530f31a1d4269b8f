"""What tests share: graphs, leaves, event loops, stand-ins for libraries; nothing here is a test."""
